#include "troupe/engine/launch/local_launcher.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <tuple>
#include <utility>

#include "../../temporary_folder.hpp"

using namespace troupe;
using namespace troupe::testing;
using std::chrono::steady_clock;

namespace {

/// Processes that run a shell script, and the lines that they wrote.
struct scripts {
  explicit scripts(const std::string& script, std::int32_t processes = 1) {
    what.processes = processes;
    what.program = "/bin/sh";
    what.arguments = {"-c", script};
    what.next_signal = [this] { return std::exchange(signal, std::nullopt); };
    what.output = [this](std::int32_t, std::string_view line, bool) {
      lines.emplace_back(line);
      if (line == "signal")
        signal = launcher_signal{SIGTERM};
    };
  }

  /// Besides the shell's messages about its own children.
  bool wrote(const std::string& line) const {
    return std::ranges::count(lines, line) == 1;
  }

  local_launch what;
  std::optional<launcher_signal> signal{};
  std::vector<std::string> lines;
};

}  // namespace

TEST_CASE("children that a process leaves behind are ended, not awaited") {
  // Living processes hold the writing end; once none does, the other end
  // reports the end.
  std::array<int, 2> alive{};
  REQUIRE(::pipe(alive.data()) == 0);
  const auto began = steady_clock::now();
  scripts run("(trap '' TERM; exec sleep 60) & echo one; printf two; exit 1");
  const auto outcome = launch_locally(run.what);
  CHECK(steady_clock::now() - began < std::chrono::seconds(30));
  CHECK(outcome.exit_code == 1);
  CHECK(run.lines == std::vector<std::string>{"one", "two"});
  ::close(alive[1]);
  pollfd end{alive[0], POLLIN, 0};
  constexpr int patience_ms = 20000;
  CHECK(::poll(&end, 1, patience_ms) == 1);
  ::close(alive[0]);
}

TEST_CASE("a process that was handed a signal is let end") {
  scripts run(
    "trap 'trap \"echo cut; exit 4\" TERM; sleep 0.5; echo wrote; exit 3' "
    "TERM; echo signal; while :; do sleep 0.01; done");
  run.what.grace = std::chrono::milliseconds(20);
  CHECK(launch_locally(run.what).exit_code == 3);
  CHECK(run.wrote("wrote"));
}

TEST_CASE("after a failure the other processes may write their output") {
  const temporary_folder folder;
  const auto ready = folder / "ready";
  scripts run("if [ $RANK = 1 ]; then while [ ! -e " + ready
                + " ]; do sleep 0.01; done; exit 5; fi; "
                  "trap 'sleep 0.5; echo wrote; exit 3' TERM; touch "
                + ready + "; while :; do sleep 0.01; done",
              2);
  run.what.grace = std::chrono::milliseconds(20);
  const auto outcome = launch_locally(run.what);
  CHECK(outcome.exit_code == 5);
  CHECK(outcome.first_to_fail == 1);
  CHECK(run.wrote("wrote"));
}

TEST_CASE("a process that ignores the request to end is killed") {
  scripts run("trap '' TERM; echo signal; while :; do sleep 0.01; done");
  run.what.last_grace = std::chrono::milliseconds(20);
  const auto outcome = launch_locally(run.what);
  CHECK(outcome.exit_code == 128 + SIGKILL);
  CHECK(outcome.how == "killed by signal 9");
}

TEST_CASE("processes that failed by themselves are all named") {
  scripts run("exit $((RANK + 3))", 3);
  run.what.grace = std::chrono::seconds(20);
  auto outcome = launch_locally(run.what);
  CHECK(outcome.exit_code == 3 + outcome.first_to_fail);
  outcome.others_failed.push_back(outcome.first_to_fail);
  std::ranges::sort(outcome.others_failed);
  CHECK(outcome.others_failed == std::vector{0, 1, 2});
}

TEST_CASE("a signalled process is named, even if others ended before") {
  const temporary_folder folder;
  const auto ready = folder / "ready";
  const auto other = "if [ $RANK = 0 ]; then while [ ! -e " + ready
                     + " ]; do sleep 0.01; done; exit 1; fi; touch " + ready
                     + "; sleep 0.3; ";
  for (const auto& [end, code, how] :
       {std::tuple{"exit 143", 143, "exit code 143"},
        {"exit 130", 130, "exit code 130"},
        {"kill -KILL $$", 137, "killed by signal 9"}}) {
    std::remove(ready.c_str());
    scripts run(other + end, 2);
    const auto outcome = launch_locally(run.what);
    CHECK(outcome.first_to_fail == 1);
    CHECK(outcome.exit_code == code);
    CHECK(outcome.how == how);
    CHECK(outcome.others_failed.empty());
  }
}

TEST_CASE("a line that never ends comes in parts") {
  scripts run("head -c 300000 /dev/zero | tr '\\0' x; echo; echo end");
  std::size_t longest = 0, all = 0;
  run.what.output = [&](std::int32_t, std::string_view line, bool) {
    longest = std::max(longest, line.size());
    all += line.size();
    run.lines.emplace_back(line.substr(0, 8));
  };
  CHECK(launch_locally(run.what).exit_code == 0);
  CHECK(longest <= 64 * 1024);
  CHECK(all == 300000 + 3);
  CHECK(run.wrote("end"));
}
