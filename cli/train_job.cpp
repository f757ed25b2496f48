#include "troupe/cli/train_job.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/live_options.hpp"
#include "troupe/schedules/error.hpp"
#include "troupe_version.hpp"

namespace troupe::cli {

namespace {

/// Settings that processes may have for themselves.
constexpr std::array own_settings{"certificates",
                                  "dashboard",
                                  "dashboard-token-file",
                                  "endpoint",
                                  "endpoint-token-file",
                                  "job-token-file",
                                  "log-json",
                                  "log-level",
                                  "monitor",
                                  "patience",
                                  "rendezvous",
                                  "save-initial",
                                  "save-parameters",
                                  "sink",
                                  "slow-load",
                                  "timeline",
                                  "trace"};

/// All other settings, each with its value.
job_description describe(const CLI::App& command) {
  job_description made{{"troupe", TROUPE_VERSION}};
  std::istringstream lines(config_text(command));
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find(" = ");
    if (equals == std::string::npos)
      continue;
    const auto name = line.substr(0, equals);
    if (std::ranges::find(own_settings, name) == own_settings.end())
      made.emplace_back("--" + name, line.substr(equals + 3));
  }
  return made;
}

}  // namespace

bool leads(const std::shared_ptr<mesh>& job) {
  return !job || job->place().leads();
}

void require_job(const train_options& options) {
  const auto place = read_environment();
  if (options.plain && !place.is_alone())
    fail(error_code::invalid_argument,
         "--plain runs in one process, and {} started {}; start it alone",
         place.launcher, place.processes);
}

std::shared_ptr<mesh> join_job(const CLI::App& command,
                               const train_options& options) {
  job_options joining;
  joining.place = read_environment();
  if (joining.place.is_alone())
    return nullptr;
  joining.rendezvous = options.rendezvous;
  joining.lines =
    options.link == "shared" ? line_kind::shared_memory : line_kind::socket;
  joining.shown = {read_token(options.job_token_file), options.certificates,
                   options.insecure};
  joining.description = describe(command);
  joining.patience = std::chrono::milliseconds(
    static_cast<std::int64_t>(options.patience * 1000));
  auto job = troupe::join_job(joining);
  if (leads(job)) {
    spdlog::info("{} processes ({})", joining.place.processes,
                 joining.place.launcher);
  } else {
    spdlog::set_level(std::max(spdlog::get_level(), spdlog::level::warn));
    spdlog::set_pattern(fmt::format("process {}: %v", joining.place.process));
  }
  return job;
}

}  // namespace troupe::cli
