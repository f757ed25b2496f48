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
#include "troupe/monitors/http/http_server.hpp"
#include "troupe/monitors/http/http_site.hpp"

namespace troupe::cli {

namespace {

http_handler json_handler() {
  return at_once([](const http_request& request) -> http_response {
    auto reply = lab::answer(request.path, request.body);
    return {reply.status, "application/json", std::move(reply.body)};
  });
}

std::vector<http_resource> resources() {
  constexpr auto anybody = access_right::page;
  return {{"GET", "/", anybody, at_once([](const http_request&) {
             return page_response(lab::page());
           })},
          {"GET", "/api/schedules", anybody, json_handler()},
          {"POST", "/api/draw", anybody, json_handler()},
          {"POST", "/api/export", anybody, json_handler()}};
}

void run(std::int32_t port) {
  const signal_watch signals;
  const auto site = std::make_shared<http_site>();
  const auto served = site->add(resources());
  const http_server server(
    {.address = fmt::format("127.0.0.1:{}", port),
     .limits = {.connections = 16, .body_bytes = lab::most_request_bytes}},
    site);
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
    "Open the printed address in a browser of this machine; Ctrl-C ends it.\n"
    "The page loads nothing from the network and stores nothing: its address\n"
    "holds its state. docs/lab.md explains the page and its requests.\n\n"
    "Example:\n  troupe lab");
  command->callback([port] { run(*port); });
}

}  // namespace troupe::cli
