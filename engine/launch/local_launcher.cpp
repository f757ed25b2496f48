#include "troupe/engine/launch/local_launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/launch/failed_child.hpp"
#include "troupe/engine/launch/output_pipe.hpp"

namespace troupe {

namespace {

struct child {
  std::int32_t process;
  pid_t pid;
  std::array<output_pipe, 2> outputs;  // standard output, then errors
  std::chrono::steady_clock::time_point started =
    std::chrono::steady_clock::now();
  bool has_ended = false;
};

std::array<owned_descriptor, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(error_code::io, "no pipe could be made: {}", std::strerror(errno));
  return {owned_descriptor(ends[0]), owned_descriptor(ends[1])};
}

/// The common environment of all processes, without the variables that another
/// launcher has set for this one.
std::vector<std::string> inherited_environment() {
  std::vector<std::string> kept;
  for (auto* const* each = environ; *each != nullptr; ++each) {
    const std::string_view text(*each);
    const auto name = text.substr(0, text.find('='));
    constexpr std::array replaced{
      "RANK",         "WORLD_SIZE",          "LOCAL_RANK",   "LOCAL_WORLD_SIZE",
      "TROUPE_JOB",   "TORCHELASTIC_RUN_ID", "MASTER_ADDR",  "MASTER_PORT",
      "TROUPE_GRACE", authority_variable,    spares_variable};
    if (std::ranges::find(replaced, name) == replaced.end())
      kept.emplace_back(text);
  }
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (auto& text : texts)
    all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

class launcher {
 public:
  explicit launcher(const local_launch& what) : what_(what) {}
  launcher(const launcher&) = delete;
  launcher& operator=(const launcher&) = delete;
  ~launcher() {
    signal_groups(SIGKILL);
    for (const auto& each : children_)
      ::waitpid(each.pid, nullptr, 0);
  }

  launch_outcome run() {
    for (std::int32_t p = 0; p < what_.processes; ++p)
      start(p);
    while (is_busy()) {
      forward_signals();
      reap();
      start_again();
      insist();
      hear();
    }
    for (auto& each : children_)
      for (const bool is_error : {false, true})
        drain(each, is_error);
    auto outcome = outcome_of(failed_);
    outcome.overdue = std::move(overdue_);
    return outcome;
  }

 private:
  using clock = std::chrono::steady_clock;

  void start(std::int32_t process) {
    auto variables = inherited_environment();
    variables.push_back(fmt::format("RANK={}", what_.first_rank + process));
    variables.push_back(fmt::format("LOCAL_RANK={}", process));
    variables.push_back(fmt::format("WORLD_SIZE={}", what_.world_size == 0
                                                       ? what_.processes
                                                       : what_.world_size));
    variables.push_back(fmt::format("LOCAL_WORLD_SIZE={}", what_.processes));
    variables.push_back("TROUPE_JOB=" + job_);
    std::ranges::copy(what_.environment, std::back_inserter(variables));
    std::vector<std::string> words{what_.program};
    std::ranges::copy(what_.arguments, std::back_inserter(words));
    const auto arguments = pointers_to(words);
    const auto environment = pointers_to(variables);
    auto out = make_pipe(), err = make_pipe(), trouble = make_pipe();
    const auto parent = ::getpid();
    const auto pid = ::fork();
    if (pid == 0) {
      // Only calls that are safe after forking a program with threads.
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (::getppid() == parent) {
        ::dup2(out[1].get(), STDOUT_FILENO);
        ::dup2(err[1].get(), STDERR_FILENO);
        sigset_t held;
        ::sigemptyset(&held);
        if (what_.holds_notices) {
          ::sigaddset(&held, SIGUSR1);
          ::sigaddset(&held, SIGUSR2);
        }
        ::sigprocmask(SIG_SETMASK, &held, nullptr);
        ::signal(SIGPIPE, SIG_DFL);  // this program may ignore it
        ::signal(SIGXFSZ, SIG_DFL);
        ::execve(what_.program.c_str(), arguments.data(), environment.data());
      }
      const int reason = errno;
      [[maybe_unused]] const auto told =
        ::write(trouble[1].get(), &reason, sizeof(reason));
      ::_exit(127);
    }
    trouble[1] = {};
    int reason = pid < 0 ? errno : 0;
    if (pid > 0)
      children_.push_back(
        {process,
         pid,
         {output_pipe(std::move(out[0])), output_pipe(std::move(err[0]))}});
    const auto got =
      pid < 0 ? 0 : ::read(trouble[0].get(), &reason, sizeof(reason));
    if (pid < 0 || got == sizeof(reason))
      fail(error_code::io, "process {} ({}) can't be started: {}", process,
           what_.program, std::strerror(reason));
  }

  /// An ended process's output is all read at once; others that hold its pipes
  /// open are not waited for.
  bool is_busy() const {
    constexpr std::chrono::seconds for_others{1};
    if (!std::ranges::all_of(children_, &child::has_ended))
      return true;
    return clock::now() - last_ended_ < for_others
           && std::ranges::any_of(children_, [](const child& each) {
                return std::ranges::any_of(
                  each.outputs, [](const auto& o) { return o.handle() >= 0; });
              });
  }

  std::function<void(std::string_view)> printer(const child& subject,
                                                bool is_error) const {
    return [this, process = subject.process, is_error](std::string_view line) {
      what_.output(process, line, is_error);
    };
  }

  bool takes(bool is_error) const {
    return !what_.takes_output || what_.takes_output(is_error);
  }

  /// Hands on the output of an ended process; a signal ends the wait for a
  /// reader. Ignores later output of processes that hold the pipe open.
  void drain(child& subject, bool is_error) {
    auto& source = subject.outputs.at(is_error);
    constexpr int patience_ms = 20;
    const auto is_signalled = [&] {
      forward_signals();
      return told_since_.has_value();
    };
    for (auto left = source.pending(); left > 0;)
      if (takes(is_error))
        left -= source.read(printer(subject, is_error));
      else if (is_signalled())
        return;
      else
        ::poll(nullptr, 0, patience_ms);
    source.close(printer(subject, is_error));
  }

  /// Waits briefly for output.
  void hear() {
    constexpr int patience_ms = 20;
    const std::array takes_now{takes(false), takes(true)};
    std::vector<pollfd> all;
    std::vector<std::pair<child*, bool>> sources;
    for (auto& each : children_)
      for (const bool is_error : {false, true})
        if (const auto handle = each.outputs.at(is_error).handle();
            handle >= 0 && takes_now.at(is_error)) {
          all.push_back({handle, POLLIN, 0});
          sources.emplace_back(&each, is_error);
        }
    if (::poll(all.data(), all.size(), patience_ms) <= 0)
      return;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (const auto [from, is_error] = sources[i]; all[i].revents != 0)
        from->outputs.at(is_error).read(printer(*from, is_error));
  }

  void forward_signals() {
    while (const auto signal =
             what_.next_signal ? what_.next_signal() : std::nullopt) {
      if (signal->kills)
        signal_groups(SIGKILL);
      else if (signal->number == SIGTSTP)
        suspend();
      else if (signal->number == SIGUSR1 || signal->number == SIGUSR2)
        signal_processes(signal->number);
      else if (!std::exchange(ends_, true))
        signal_end(signal->number);
    }
  }

  /// SIGSTOP, as the groups of a background job may ignore SIGTSTP.
  void suspend() {
    const auto begin = clock::now();
    signal_groups(SIGSTOP);
    ::kill(::getpid(), SIGSTOP);  // returns when this process goes on
    signal_groups(SIGCONT);
    for (auto* since : {&told_since_, &fails_since_})
      if (*since)
        **since += clock::now() - begin;
  }

  /// Detects ended processes without reaping them, so that their group ids
  /// can't be reused: processes that they started are ended with them.
  void reap() {
    constexpr int look = WEXITED | WNOHANG | WNOWAIT;
    for (auto& each : children_) {
      siginfo_t found{};
      if (each.has_ended
          || ::waitid(P_PID, static_cast<id_t>(each.pid), &found, look) != 0
          || found.si_pid != each.pid)
        continue;
      each.has_ended = true;
      last_ended_ = clock::now();
      ::kill(-each.pid, SIGTERM);
      note_end(
        {each.process, each.pid, found.si_status, found.si_code != CLD_EXITED});
    }
  }

  void note_end(const ended_process& which) {
    const bool asks = what_.judge && !told_since_ && !fails_since_ && !done_;
    const auto meaning = asks ? what_.judge(which) : ending::counts;
    if (meaning == ending::restarts)
      restarting_.push_back(which.pid);
    else if (meaning == ending::completes)
      done_ = clock::now();
    if (meaning != ending::counts || done_
        || (!which.killed && which.status == 0))
      return;
    failed_.push_back(
      {which.process, which.status, which.killed, told_since_.has_value()});
    if (!fails_since_)
      fails_since_ = clock::now();
  }

  /// The processes that are to be, once the output of their lives before is
  /// handed on.
  void start_again() {
    for (const auto pid : std::exchange(restarting_, {})) {
      const auto before = std::ranges::find(children_, pid, &child::pid);
      for (const bool is_error : {false, true})
        drain(*before, is_error);
      ::waitpid(before->pid, nullptr, 0);
      const auto process = before->process;
      children_.erase(before);
      if (!told_since_)
        start(process);
    }
  }

  /// Ends processes that don't end by themselves. After one signal they get
  /// time to write files.
  void insist() {
    const auto now = clock::now();
    if (done_)
      end_others();
    else if (told_since_ && now - *told_since_ >= what_.last_grace)
      kill_overdue();
    else if (!told_since_ && fails_since_ && now - *fails_since_ >= what_.grace)
      signal_end(SIGTERM);
    else if (!told_since_ && !fails_since_ && what_.is_stuck)
      kill_stuck();
  }

  void kill_stuck() const {
    for (const auto& each : children_)
      if (!each.has_ended
          && what_.is_stuck(
            {each.process, each.pid,
             std::chrono::duration_cast<std::chrono::milliseconds>(
               clock::now() - each.started)}))
        ::kill(-each.pid, SIGKILL);
  }

  /// After the job is done.
  void end_others() const {
    const bool is_late = clock::now() - *done_ >= what_.last_grace;
    for (const auto& each : children_)
      if (!each.has_ended
          && (is_late || (what_.has_part && !what_.has_part(each.pid))))
        ::kill(-each.pid, SIGKILL);
  }

  void kill_overdue() {
    if (overdue_.empty())
      for (const auto& each : children_)
        if (!each.has_ended)
          overdue_.push_back(each.process);
    signal_groups(SIGKILL);
  }

  void signal_end(int number) {
    signal_groups(number);
    told_since_ = clock::now();
  }

  void signal_groups(int number) const {
    for (const auto& each : children_)
      ::kill(-each.pid, number);
  }

  /// A process that was not reaped keeps its id.
  void signal_processes(int number) const {
    for (const auto& each : children_)
      ::kill(each.pid, number);
  }

  const local_launch& what_;
  const std::string job_ = random_digits(2);
  std::vector<child> children_;
  std::vector<std::int64_t> restarting_;  // pids
  std::vector<failed_child> failed_;      // in the order in which they ended
  clock::time_point last_ended_;
  std::optional<clock::time_point> fails_since_, told_since_, done_;
  bool ends_ = false;                  // by a signal
  std::vector<std::int32_t> overdue_;  // killed
};

}  // namespace

launch_outcome launch_locally(const local_launch& what) {
  return launcher(what).run();
}

}  // namespace troupe
