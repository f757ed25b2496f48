#include "troupe/cli/signals.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/base/status_line.hpp"
#include "troupe/cli/signal_policy.hpp"

namespace troupe::cli {

namespace {

using clock = std::chrono::steady_clock;

const char* name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "interrupted by Ctrl-C (SIGINT)";
    case SIGHUP:
      return "ended because its terminal was closed (SIGHUP)";
    case SIGUSR1:
      return "asked to save (SIGUSR1)";
    case SIGUSR2:
      return "ended on notice (SIGUSR2)";
    default:
      return "ended by SIGTERM";
  }
}

/// 0 without such a process.
pid_t parent_of(pid_t process) {
  try {
    const auto stat = read_file(fmt::format("/proc/{}/stat", process));
    // "12 (name) S 11 ...": a name may hold spaces and parentheses.
    const auto begin = stat.rfind(") ") + 4;
    const auto end = stat.find(' ', begin);
    return parse_number<pid_t>(stat.substr(begin, end - begin)).value_or(0);
  } catch (...) {
    return 0;
  }
}

bool is_ancestor(pid_t process) {
  constexpr int deepest = 64;
  auto each = ::getppid();
  for (int i = 0; i < deepest && each > 0; ++i, each = parent_of(each))
    if (each == process)
      return true;
  return false;
}

received_signal to_received_signal(const siginfo_t& info) {
  const bool by_process = info.si_code == SI_USER || info.si_code == SI_TKILL
                          || info.si_code == SI_QUEUE;
  const auto sender = by_process ? info.si_pid : 0;
  return {info.si_signo, sender, sender > 0 && is_ancestor(sender),
          clock::now()};
}

bool stderr_is_ready() {
  pollfd errors{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&errors, 1, 0) > 0;
}

/// Never blocks: a line for a stalled reader waits in another thread.
void print_line(const std::string& line) {
  if (line.empty())
    return;
  const auto print = [line] {
    clear_status_line();
    std::fprintf(stderr, "troupe: %s\n", line.c_str());
  };
  if (stderr_is_ready())
    return print();
  try {
    std::thread(print).detach();
  } catch (const std::system_error&) {  // without a thread the line is dropped
  }
}

sigset_t signal_set(watched_signals which) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  // sigwaitinfo would also receive a blocked signal that is ignored.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0
      && hangup.sa_handler != SIG_IGN)
    ::sigaddset(&set, SIGHUP);
  if (which >= watched_signals::with_notices) {
    ::sigaddset(&set, SIGUSR1);
    ::sigaddset(&set, SIGUSR2);
  }
  if (which == watched_signals::with_suspend)
    ::sigaddset(&set, SIGTSTP);
  return set;
}

}  // namespace

struct signal_watch::state {
  explicit state(watched_signals which) : set(signal_set(which)) {}

  const sigset_t set;
  std::mutex mutex;  // guards what follows
  bool over = false;
  bool save_waits = false;  // until `save` is set
  bool drains = false;      // `drain` was called
  pid_t launcher = 0;       // 0: none
  handler end, save, drain;
  std::function<void()> suspend, before_end_now;
  std::optional<clock::time_point> hurried;
  std::atomic<int> code{0};
  signal_policy policy;  // used by the thread alone

  void run() {
    for (;;) {
      siginfo_t info{};
      if (::sigwaitinfo(&set, &info) < 0)
        continue;
      const std::scoped_lock lock(mutex);
      if (over)
        return;
      if (info.si_signo == SIGTSTP)
        suspend();
      else
        handle(to_received_signal(info));
    }
  }

  void handle(const received_signal& signal) {
    signal_request request{signal.number, name_of(signal.number),
                           signal.number != SIGUSR2};
    const bool is_launchers = launcher > 0 && signal.sender == launcher;
    const auto action = policy.action_for(signal);
    if (drains && is_launchers && code == 0)  // the whole job ends
      return handle_end(request);
    switch (action) {
      case signal_action::ignore:
        return;
      case signal_action::save:
        save_waits = !save;
        return save ? print_line(save(request)) : void();
      case signal_action::end:
        drains = drain && signal.number == SIGTERM && !is_launchers;
        if (drains)
          return print_line(drain(request));
        return handle_end(request);
      case signal_action::end_now:
        if (before_end_now)
          before_end_now();
        if (stderr_is_ready())
          print_line("a second signal: ended at once");
        ::_exit(128 + signal.number);
    }
  }

  void handle_end(const signal_request& request) {
    code = 128 + request.number;
    if (request.hurries)
      hurried = clock::now();
    if (end)
      return print_line(end(request));
    print_line(request.name);
    ::_exit(code);
  }
};

std::optional<double> granted_grace() {
  const auto* text = std::getenv(grace_variable);
  const auto seconds = text ? parse_number<double>(text) : std::nullopt;
  return seconds && *seconds > 0 ? seconds : std::nullopt;
}

signal_watch::signal_watch(watched_signals which)
  : state_(std::make_shared<state>(which)) {
  ::pthread_sigmask(SIG_BLOCK, &state_->set, nullptr);
  thread_ = std::thread([state = state_] { state->run(); });
}

signal_watch::~signal_watch() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->over = true;
  }
  ::pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
  ::pthread_sigmask(SIG_UNBLOCK, &state_->set, nullptr);
}

void signal_watch::on_end(handler end) {
  const std::scoped_lock lock(state_->mutex);
  state_->end = std::move(end);
}

void signal_watch::on_save(handler save) {
  const std::scoped_lock lock(state_->mutex);
  state_->save = std::move(save);
  if (state_->save && std::exchange(state_->save_waits, false))
    print_line(state_->save({SIGUSR1, name_of(SIGUSR1)}));
}

void signal_watch::on_drain(handler drain, pid_t launcher) {
  const std::scoped_lock lock(state_->mutex);
  state_->drain = std::move(drain);
  state_->launcher = launcher;
}

void signal_watch::end_drained() {
  const std::scoped_lock lock(state_->mutex);
  state_->handle_end({SIGTERM, name_of(SIGTERM)});
}

void signal_watch::on_suspend(std::function<void()> suspend) {
  const std::scoped_lock lock(state_->mutex);
  state_->suspend = std::move(suspend);
}

void signal_watch::on_end_now(std::function<void()> before) {
  const std::scoped_lock lock(state_->mutex);
  state_->before_end_now = std::move(before);
}

void signal_watch::defer_signals() {
  on_end([](const signal_request& request) {
    return fmt::format("{}; finishing first; a second signal ends it at once",
                       request.name);
  });
  on_save({});
}

int signal_watch::exit_code() const {
  return state_->code;
}

std::string signal_watch::name() const {
  const auto code = exit_code();
  return code == 0 ? "" : name_of(code - 128);
}

std::optional<std::chrono::milliseconds> signal_watch::since_end() const {
  const std::scoped_lock lock(state_->mutex);
  if (!state_->hurried)
    return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(
    clock::now() - *state_->hurried);
}

void signal_watch::require_none(const char* during) const {
  if (exit_code() != 0)
    fail(error_code::interrupted, "{} during {}", name(), during);
}

void signal_watch::end_process(const std::string& text) const {
  end_soon(exit_code());
  clear_status_line();
  if (!text.empty())  // printed before anything that may take longer
    std::fputs(plain_text(fmt::format("troupe: {}\n", text)).c_str(), stderr);
  throw process_end({}, exit_code());
}

}  // namespace troupe::cli
