#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "troupe/base/deadline.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/live/top_screen.hpp"
#include "troupe/cli/live/top_view.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/followed_job.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe::cli {

namespace {

constexpr auto top_help = R"(
Shows the last finished step: loss, tokens per second, bubble and memory, and of
each rank how busy it was, its last forward or backward and how long it was idle
from there to the step's end, its slowest op, what it received and waited for,
and the memory of its process. In a terminal it is drawn anew in place, with
curves of the last views and the time left; arrows, space and b scroll the
ranks, and q ends it. Elsewhere it is printed again.

Example:
  troupe top
  troupe top unix:/tmp/x.sock
  troupe top unix:/tmp/x.sock --once

The command ends with Ctrl-C, or with the run. In a job that heals it goes on
with the process that leads the job next.
Exit codes: 0 done, 1 failed, 2 wrong usage.)";

struct top_options {
  live_options job;
  bool once = false;
  bool json = false;
  double interval = 1;
};

/// Reads keys as they are typed, during its lifetime, if enabled and if
/// standard input is this process's own terminal.
class keys {
 public:
  explicit keys(bool enabled) {
    // Changing the terminal's settings would stop a background process.
    if (!enabled || ::tcgetattr(STDIN_FILENO, &before_) != 0
        || ::tcgetpgrp(STDIN_FILENO) != ::getpgrp())
      return;
    auto by_key = before_;
    by_key.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    reads_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &by_key) == 0;
  }
  keys(const keys&) = delete;
  keys& operator=(const keys&) = delete;
  ~keys() {
    if (reads_)
      ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  /// Returns the bytes typed so far, or "q" if the input has ended, without
  /// waiting.
  std::string typed() const {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (!reads_ || ::poll(&input, 1, 0) <= 0)
      return {};
    std::array<char, 64> bytes{};
    const auto count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    return count <= 0
             ? "q"
             : std::string(bytes.data(), static_cast<std::size_t>(count));
  }

 private:
  bool reads_ = false;
  termios before_{};
};

/// None if the endpoint can't send the plan because of its length.
std::optional<plan> plan_of(live_client& client) {
  try {
    return plan_from_text(client.plan(), "the job's plan");
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;
    spdlog::debug("no plan: {}", reason.what());
    return {};
  }
}

/// Prints views, or draws them in place on a terminal.
class display {
 public:
  display(const top_view& view, const top_options& options)
    : view_(view),
      json_(options.json),
      terminal_(::isatty(STDOUT_FILENO) == 1 && !options.once && !options.json),
      keys_(terminal_),
      screen_(view) {
    if (terminal_) {
      print_now("\033[2J");
      draw();
    }
  }

  void show_step() {
    if (!terminal_)
      return print_now(json_ ? json_text(view_.json()) + "\n"
                             : plain_text(view_.text(false)));
    screen_.add_step();
    draw();
  }

  /// Takes what was typed; returns whether it ends the display.
  bool takes_end() {
    const auto typed = keys_.typed();
    if (typed.find('q') != typed.npos)
      return true;
    if (screen_.scroll(typed))
      draw();
    return false;
  }

 private:
  void draw() {
    winsize size{};
    const bool has_size = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0
                          && size.ws_col > 0 && size.ws_row > 0;
    print_now(
      screen_.text(has_size ? size.ws_col : 80, has_size ? size.ws_row : 24));
  }

  const top_view& view_;
  bool json_;
  bool terminal_;
  keys keys_;
  top_screen screen_;
};

enum class outcome : std::uint8_t { fresh, nothing, quit, ended };

/// Receives events until it is time to draw. `last`: what ended the stream, if
/// a message did.
outcome gather(live_client& client, top_view& view, const top_options& options,
               display& shown, std::optional<live_message>& last) {
  constexpr double look_at_keys = 0.1;
  const deadline until(options.once ? HUGE_VAL : options.interval);
  const auto due = [&] { return !options.once && until.milliseconds() == 0; };
  auto found = outcome::nothing;
  while (!due() && !(options.once && found == outcome::fresh)) {
    if (shown.takes_end())
      return outcome::quit;
    auto message = client.next(look_at_keys);
    if (message ? message->type == "ended" : client.ended()) {
      last = std::move(message);
      return outcome::ended;
    }
    if (message && message->type == "event"
        && view.add(event_of(message->content)))
      found = outcome::fresh;
  }
  return found;
}

void subscribe(live_client& client) {
  subscription wants;
  wants.ops = wants.messages = wants.memory = true;
  wants.warnings = false;
  client.watch(wants);
}

void watch(followed_job& job, const top_options& options) {
  top_view view(job.client().health(), plan_of(job.client()));
  subscribe(job.client());
  display shown(view, options);
  for (std::optional<live_message> last;;) {
    const auto found = gather(job.client(), view, options, shown, last);
    if (found == outcome::quit)
      return;
    if (found == outcome::ended) {
      if (!job.follow(last ? &*last : nullptr, subscribe))
        break;
      view.go_on_with(job.client().health());
      continue;
    }
    if (found == outcome::fresh)
      shown.show_step();
    if (options.once)
      return;
  }
  spdlog::info("the job ended the stream");
}

}  // namespace

void add_top_command(CLI::App* command) {
  const auto options = std::make_shared<top_options>();
  options->job.add_to(*command);
  command->add_flag("--once", options->once, "show the next step, and end");
  command->add_flag("--json", options->json,
                    "a JSON object a line for each view");
  add_value(*command, "--interval", options->interval, "seconds between views",
            number(0.01, 3600));
  command->footer(top_help);
  command->callback([options] {
    auto job = options->job.followed();
    run_until_signal([&] { job.interrupt(); }, [&] { watch(job, *options); });
  });
}

}  // namespace troupe::cli
