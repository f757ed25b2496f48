#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <future>
#include <memory>
#include <string>

#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/lab/api.hpp"
#include "troupe/lab/job.hpp"
#include "troupe/monitors/sinks/http_server.hpp"

namespace troupe::cli {

namespace {

http_response answer_json(const std::string& path, const std::string& body) {
  auto reply = lab::answer(path, body);
  return {reply.status, "application/json", std::move(reply.body)};
}

http_response only(const std::string& methods) {
  return {.status = 405,
          .type = "text/plain",
          .body = "send a " + methods.substr(0, methods.find(',')) + "\n",
          .headers = {{"Allow", methods}}};
}

http_response answer_get(const std::string& path) {
  if (path == "/")
    return page_response(lab::page());
  if (path == "/api/schedules")
    return answer_json(path, {});
  if (path == "/api/draw" || path == "/api/export")
    return only("POST");
  return {404, "text/plain", "the page is at /\n"};
}

http_response answer_post(const std::string& path, const std::string& body) {
  return path == "/" || path == "/api/schedules" ? only("GET, HEAD")
                                                 : answer_json(path, body);
}

void run(std::int32_t port) {
  const signal_watch signals;
  const http_server server({.address = fmt::format("127.0.0.1:{}", port),
                            .connections = 16,
                            .post = answer_post,
                            .body_bytes = lab::most_request_bytes},
                           answer_get);
  print_now(fmt::format("lab: http://{}/\n", server.address()));
  std::promise<void> never;
  never.get_future().wait();  // a signal ends the process
}

}  // namespace

void add_lab_command(CLI::App* command) {
  const auto port = std::make_shared<std::int32_t>(0);
  add_value(
    *command, "--port N", *port,
    "port on 127.0.0.1 that serves the page; 0: a free one, which is printed",
    whole_number(0, UINT16_MAX))
    ->capture_default_str();
  command->footer(
    "Open the printed address in a browser of this machine; Ctrl-C ends it. "
    "The page loads nothing from the network and stores nothing: its address "
    "holds its state. docs/lab.md explains the page and its requests.");
  command->callback([port] { run(*port); });
}

}  // namespace troupe::cli
