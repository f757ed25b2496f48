#include "troupe/cli/commands.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/ends_elsewhere.hpp"
#include "troupe/cli/failure_flag.hpp"
#include "troupe/cli/healing_launch.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>

#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/engine/launch/local_launcher.hpp"
#include "troupe/engine/transport/address/own_folder.hpp"

namespace troupe::cli {

namespace {

constexpr auto example = R"(
Example:
  troupe launch --processes 2 -- train --text book.txt --ranks 2

Each process gets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE. Its output
stands after its number; when one fails, all end, and the first to fail is
named: one that was killed or signalled before those that ended as it was gone.
With train --heal the job goes on without one that is killed.
SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are forwarded, and Ctrl-Z stops the
processes, too. Exit code: that of the process that is named.)";

struct launch_settings {
  std::int32_t processes = 2;
  std::int32_t spares = 0;
  membership::failure_policy policy{};
  double grace = usual_grace;
  std::string authority;  // empty: this launcher has one
  std::int32_t machines = 1;
  std::int32_t machine = 0;
  std::vector<std::string> command;
};

/// Signals on their way from the thread that receives them to the launcher.
class signal_queue {
 public:
  void put(launcher_signal signal) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(signal);
  }
  std::optional<launcher_signal> take() {
    const std::scoped_lock lock(mutex_);
    is_handled_ = waiting_.empty();
    if (is_handled_) {
      handled_.notify_all();
      return std::nullopt;
    }
    const auto first = waiting_.front();
    waiting_.pop_front();
    return first;
  }
  /// Waits until the launcher has killed all processes, at most a second.
  void kill_all() {
    std::unique_lock lock(mutex_);
    waiting_.push_back({.kills = true});
    is_handled_ = false;
    handled_.wait_for(lock, std::chrono::seconds(1),
                      [this] { return is_handled_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable handled_;
  std::deque<launcher_signal> waiting_;
  bool is_handled_ = true;  // the launcher has taken all signals
};

/// Whether a write to the stream would not block.
bool stream_is_ready(bool is_error) {
  pollfd each{is_error ? STDERR_FILENO : STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&each, 1, 0) != 0;
}

/// A command of this program, or another program by its path.
local_launch launch_of(const CLI::App& app, const launch_settings& settings) {
  local_launch launch;
  launch.processes = settings.processes;
  launch.last_grace = milliseconds_of(settings.grace);
  launch.environment = {fmt::format("{}={}", grace_variable, settings.grace)};
  // Nothing more is printed once the reader has left, or, after a signal, was
  // given up.
  launch.output = [muted = std::array<bool, 2>{},
                   first = settings.machine * settings.processes](
                    std::int32_t process, std::string_view line,
                    bool is_error) mutable {
    auto& done = muted.at(is_error ? 1 : 0);
    if (done)
      return;
    done = !print_all(is_error ? stderr : stdout,
                      fmt::format("[{}] {}\n", first + process, line));
    if (done && errno == EPIPE && !is_error)
      tell_that_reader_left();
  };
  launch.takes_output = stream_is_ready;
  const auto& first = settings.command.front();
  const auto commands = app.get_subcommands(
    [&](const CLI::App* each) { return each->get_name() == first; });
  if (!commands.empty()) {
    launch.program = std::filesystem::read_symlink("/proc/self/exe").string();
    launch.arguments = settings.command;
    launch.holds_notices = first == "train";
    return launch;
  }
  if (!std::filesystem::exists(first))
    fail(error_code::invalid_argument,
         "'{}' is neither a command of troupe nor the path of a program; write "
         "troupe launch --processes {} -- train ...",
         first, settings.processes);
  launch.program = first;
  launch.arguments.assign(settings.command.begin() + 1, settings.command.end());
  return launch;
}

std::shared_ptr<signal_queue> forward_signals(signal_watch& signals) {
  auto queue = std::make_shared<signal_queue>();
  const auto forward = [queue](const signal_request& request) {
    if (request.hurries)
      end_patience();
    queue->put({request.number});
    return std::string{};
  };
  signals.on_end(forward);
  signals.on_save([queue](const signal_request& request) {
    queue->put({request.number});
    return std::string{};
  });
  signals.on_suspend([queue] { queue->put({SIGTSTP}); });
  signals.on_end_now([queue] { queue->kill_all(); });
  return queue;
}

/// Processes get the numbers that they have in the job.
launch_outcome numbered_in_job(launch_outcome outcome, std::int32_t first) {
  outcome.first_to_fail += first;
  for (auto* list : {&outcome.others_failed, &outcome.overdue})
    for (auto& process : *list)
      process += first;
  return outcome;
}

std::string overdue_text(const std::vector<std::int32_t>& processes,
                         double grace) {
  const bool is_one = processes.size() == 1;
  return fmt::format(
    "process{} {} did not end within {} s and {} killed; --grace gives more "
    "time",
    is_one ? "" : "es", fmt::join(processes, ", "), grace,
    is_one ? "was" : "were");
}

std::string failure_text(const launch_outcome& outcome) {
  if (outcome.others_failed.empty())
    return fmt::format("process {} was the first to fail: {}",
                       outcome.first_to_fail, outcome.how);
  const bool is_one = outcome.others_failed.size() == 1;
  return fmt::format(
    "process {} was the first to end: {}; process{} {} failed as well, and {} "
    "messages name the cause",
    outcome.first_to_fail, outcome.how, is_one ? "" : "es",
    fmt::join(outcome.others_failed, ", "), is_one ? "its" : "their");
}

/// This launcher starts a part of the job's processes.
void join_machines(const launch_settings& settings, local_launch& what) {
  what.first_rank = settings.machine * settings.processes;
  what.world_size = settings.machines * settings.processes;
  what.environment.push_back(
    fmt::format("{}={}", authority_variable, settings.authority));
  what.judge = [judge = ends_elsewhere(what.first_rank)](
                 const ended_process& which) mutable {
    return judge.meaning_of(which);
  };
}

/// A file of flags may have --heal.
bool may_heal(const std::vector<std::string>& command) {
  return command.front() != "train"
         || std::ranges::any_of(command, [](const std::string& word) {
              return word.starts_with("--heal") || word.starts_with("--config");
            });
}

void require_machines(const launch_settings& settings) {
  const bool is_elsewhere = !settings.authority.empty();
  if (settings.machines > 1 && !is_elsewhere)
    fail(error_code::invalid_argument,
         "--machines: the processes find each other by an authority; run "
         "`troupe authority` on one machine and give --authority, and --heal "
         "to the command");
  if (settings.machine >= settings.machines)
    fail(error_code::invalid_argument,
         "--machine {} of {}: machines are counted from 0", settings.machine,
         settings.machines);
  if (is_elsewhere && settings.spares > 0)
    fail(error_code::invalid_argument,
         "--spares are for a job whose authority is this launcher; omit it "
         "with --authority");
}

/// Returns if the job has ended well, as far as it was this launcher's.
void report(const launch_settings& settings, const signal_watch& signals,
            const launch_outcome& outcome, const healing_launch* healing) {
  const bool is_ended = signals.since_end().has_value();
  const auto code = is_ended ? signals.exit_code() : outcome.exit_code;
  if (!outcome.overdue.empty())
    throw process_end(overdue_text(outcome.overdue, settings.grace), code);
  if (!settings.authority.empty() && outcome.exit_code == 0)
    return;  // others go on with the ranks of this machine's processes
  if (signals.exit_code() != 0)  // the processes have reported what they saved
    throw process_end({}, code);
  if (outcome.exit_code == 0)
    return;
  const auto why = healing != nullptr && healing->authority
                     ? healing->authority->stop_reason()
                     : std::string{};
  throw process_end(
    why.empty() ? failure_text(outcome) : "the job was stopped: " + why,
    outcome.exit_code);
}

void launch(const CLI::App& app, const launch_settings& settings) {
  drop_closed_output();
  require_machines(settings);
  auto what = launch_of(app, settings);
  // Checked before the processes start, so that all of them find the same
  // folder.
  if (const auto own = find_own_folder(); !own.trouble.empty())
    spdlog::warn("sockets are in {}, as {}", own.path, own.trouble);
  std::shared_ptr<healing_launch> healing;
  if (settings.authority.empty())
    healing = healing_launch_of({.processes = settings.processes,
                                 .spares = settings.spares,
                                 .policy = settings.policy},
                                what);
  else
    join_machines(settings, what);
  signal_watch signals(watched_signals::with_suspend);
  const auto queue = forward_signals(signals);
  what.next_signal = [queue] { return queue->take(); };
  const auto outcome = with_last_loss(launch_locally(what), healing.get());
  report(settings, signals, numbered_in_job(outcome, what.first_rank),
         healing.get());
}

}  // namespace

void add_launch_command(CLI::App* command) {
  auto settings = std::make_shared<launch_settings>();
  add_value(*command, "--processes", settings->processes, "how many",
            whole_number(1, 1024))
    ->capture_default_str();
  add_value(*command, "--grace", settings->grace,
            "seconds for the processes to end and save after a signal; then "
            "they are killed; also their default for --grace",
            number_above(0, 1e6))
    ->capture_default_str();
  add_value(*command, "--spares", settings->spares,
            "more processes, which take the place of lost ones (train --heal)",
            whole_number(0, 1024))
    ->capture_default_str();
  add_failure_flag(*command, settings->policy);
  add_value(*command, "--authority ADDRESS", settings->authority,
            "where `troupe authority` is, for a job on several machines that "
            "heals: HOST:PORT, or etcd://HOST:2379/JOB")
    ->default_str(description("this launcher"));
  add_value(*command, "--machines N", settings->machines,
            "on each of which a launcher with --authority starts --processes",
            whole_number(1, 1 << 16))
    ->capture_default_str();
  add_value(*command, "--machine I", settings->machine,
            "the number of this one, from 0", whole_number(0, 1 << 16))
    ->capture_default_str();
  add_value(*command, "command COMMAND", settings->command,
            "the command of each process, after --: train ...")
    ->required();
  command->footer(example);
  command->callback([command, settings] {
    if (command->count("--on-failure") > 0 && !may_heal(settings->command))
      fail(error_code::invalid_argument,
           "--on-failure is for jobs that heal; give train --heal, too");
    launch(*command->get_parent(), *settings);
  });
}

}  // namespace troupe::cli
