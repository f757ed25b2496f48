#include "troupe/cli/healing_launch.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>

#include <chrono>
#include <string>
#include <thread>

#include "troupe/base/error.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/own_sockets.hpp"

namespace troupe::cli {

namespace {

/// Its files and ports are free afterwards.
void kill_and_wait(std::int64_t pid) {
  constexpr std::chrono::milliseconds look{2};
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  siginfo_t found{};
  for (int i = 0; i < 500 && found.si_pid == 0; ++i) {
    // Fails for a process that this one has not started.
    if (::waitid(P_PID, static_cast<id_t>(pid), &found,
                 WEXITED | WNOHANG | WNOWAIT)
        != 0)
      return;
    std::this_thread::sleep_for(look);
  }
}

/// Whether somebody has told the process to end, in its own way or by default.
bool was_told(const ended_process& which) {
  return which.status == (which.killed ? SIGTERM : 128 + SIGTERM);
}

/// What it means for a job that heals that a process was killed.
ending ending_of_killed(const ended_process& which, healing_launch& of,
                        process_loss loss) {
  constexpr int most_tries = 3;
  auto& tries = of.tries[which.process];
  const bool was_in_job =
    loss == process_loss::healed && of.authority->has_had_epoch();
  if (was_in_job)
    tries = 0;
  const bool stops = loss == process_loss::stops_job;
  if (!stops && !was_in_job && tries++ >= most_tries)
    return ending::counts;
  spdlog::warn("process {} (pid {}) was killed by signal {}{}", which.process,
               which.pid, which.status, stops ? "" : ", and is started again");
  if (!stops)
    return ending::restarts;
  of.last_loss = which;
  return ending::leaves;  // the others save what is left
}

/// What the end of a process means for a job that heals.
ending ending_of(const ended_process& which, healing_launch& of) {
  auto& authority = *of.authority;
  const auto loss = authority.process_ended(which.pid);
  if (!authority.has_begun())
    return ending::counts;
  if (authority.has_left(which.pid) || (which.killed && authority.is_done()))
    return ending::leaves;
  if (!authority.has_part(which.pid) && was_told(which))  // it had no rank yet
    return authority.has_had_epoch() ? ending::leaves : ending::counts;
  if (which.killed && !was_told(which))
    return ending_of_killed(which, of, loss);
  if (which.killed || was_told(which))
    return ending::counts;
  if (loss != process_loss::of_nobody && which.status == 0)
    return ending::completes;
  if (which.status != 0)
    spdlog::warn("process {} (pid {}) ended with exit code {}: the job ends",
                 which.process, which.pid, which.status);
  return ending::counts;
}

/// Where the authority is to be; empty: it can't be anywhere, and no job heals.
std::string own_address(const healing_launch_settings& settings) {
  try {
    return own_socket(fmt::format("authority-{}", random_digits(2)));
  } catch (const error& reason) {
    if (settings.spares > 0)
      throw;
    spdlog::debug("no job can heal: {}", reason.what());
    return {};
  }
}

bool is_stuck(const started_process& which, const authority_server& authority) {
  if (!authority.is_overdue(which.pid, which.age))
    return false;
  spdlog::warn(
    "process {} (pid {}) has not come, or is silent, after {:.3g} s, and is "
    "killed; train --patience gives more time",
    which.process, which.pid, 1e-3 * static_cast<double>(which.age.count()));
  return true;
}

}  // namespace

std::shared_ptr<healing_launch> healing_launch_of(
  const healing_launch_settings& settings, local_launch& what) {
  auto result = std::make_shared<healing_launch>();
  const auto where = own_address(settings);
  if (where.empty())
    return result;
  result->authority = std::make_unique<authority_server>(
    parse_endpoint(where),
    authority_server_options{
      .processes = settings.processes,
      .spares = settings.spares,
      .job = where,
      .policy = settings.policy,
      .news = [](const std::string& text) { spdlog::warn("{}", text); },
      .given_up = kill_and_wait});
  what.processes += settings.spares;
  what.environment.push_back(fmt::format("{}={}", authority_variable, where));
  what.environment.push_back(
    fmt::format("{}={}", spares_variable, settings.spares));
  what.is_stuck = [of = result.get()](const started_process& which) {
    return is_stuck(which, *of->authority);
  };
  what.has_part = [of = result.get()](std::int64_t pid) {
    return of->authority->has_part(pid);
  };
  what.judge = [of = result.get()](const ended_process& which) {
    return ending_of(which, *of);
  };
  return result;
}

launch_outcome with_last_loss(launch_outcome outcome,
                              const healing_launch* healing) {
  if (healing == nullptr || !healing->last_loss || outcome.exit_code != 0)
    return outcome;
  const auto& lost = *healing->last_loss;
  outcome.exit_code = 128 + lost.status;
  outcome.first_to_fail = lost.process;
  outcome.how = fmt::format("killed by signal {}", lost.status);
  return outcome;
}

}  // namespace troupe::cli
