#include "troupe/cli/live/live_options.hpp"

#include <CLI/CLI.hpp>

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <optional>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/own_sockets.hpp"
#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe::cli {

namespace {

constexpr double patience_of_a_look = 2;

/// Describes the job at an endpoint; none if no job answers.
std::optional<std::string> describe_job(const std::string& where,
                                        const std::string& token) {
  try {
    const live_client client(where, token, patience_of_a_look);
    const auto& info = client.health();
    return fmt::format(
      "{}: {}, {} ranks, step {}", where, field<std::string>(info, "schedule"),
      field<std::int64_t>(info, "ranks"), field<std::int64_t>(info, "step"));
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;
    return {};
  }
}

std::string only_job(const std::string& token) {
  std::vector<std::string> found, lines;
  for (const auto& where : own_endpoints())
    if (const auto line = describe_job(where, token)) {
      found.push_back(where);
      lines.push_back(*line);
    }
  if (found.empty())
    fail(error_code::invalid_argument,
         "none of your jobs on this machine responds; give its endpoint, "
         "unix:PATH or tcp:HOST:PORT, as logged at its start, and "
         "--token-file if it has tokens");
  if (found.size() > 1)
    fail(error_code::invalid_argument,
         "you have {} jobs; give the endpoint of one:\n  {}", found.size(),
         fmt::join(lines, "\n  "));
  spdlog::info("the job at {}", lines.front());
  return found.front();
}

}  // namespace

void live_options::add_to(CLI::App& command) {
  add_value(command, "endpoint ENDPOINT", endpoint,
            "unix:PATH or tcp:HOST:PORT, as the job logged at its start; by "
            "default your only job on this machine that listens at its default "
            "endpoint");
  add_token_to(command);
}

void live_options::add_token_to(CLI::App& command) {
  add_value(command, "--token-file FILE", token_file,
            "file with one of the job's secrets: to watch or to control it");
}

void live_options::take_endpoint(std::vector<std::string>& words) {
  if (words.empty() || !is_endpoint(words.front()))
    return;
  endpoint = words.front();
  words.erase(words.begin());
}

bool log_warning(const live_message& message) {
  if (message.type != "printed" || !has_flag(message.content, "warning"))
    return false;
  spdlog::warn("{}", plain_text(field<std::string>(message.content, "text")));
  return true;
}

bool is_endpoint(const std::string& word) {
  return word.starts_with("unix:") || word.starts_with("tcp:");
}

live_client live_options::connect(double patience) const {
  const auto token = read_token(token_file);
  return live_client(where(token), token, patience);
}

followed_job live_options::followed() const {
  const auto token = read_token(token_file);
  return followed_job(where(token), token);
}

std::string live_options::where(const std::string& token) const {
  return endpoint.empty() ? only_job(token) : endpoint;
}

std::string read_token(const std::string& path) {
  return path.empty() ? std::string{} : read_secret(path);
}

void run_until_signal(live_client& client, const std::function<void()>& part) {
  run_until_signal([&client] { client.interrupt(); }, part);
}

void run_until_signal(const std::function<void()>& interrupt,
                      const std::function<void()>& part) {
  signal_watch signals;
  signals.on_end([&](const signal_request&) {
    interrupt();
    return std::string{};
  });
  try {
    part();
  } catch (const error& reason) {
    if (reason.code() != error_code::interrupted)
      throw;
  }
}

}  // namespace troupe::cli
