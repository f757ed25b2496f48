// What is left of a run that was asked to stop, by any signals.
#include <fmt/format.h>
#include <signal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>
#include <thread>

#include "background_program.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// A process's children that it has not waited for yet.
std::vector<pid_t> children_of(pid_t process) {
  std::istringstream text(
    content(fmt::format("/proc/{}/task/{}/children", process, process)));
  std::vector<pid_t> all;
  for (pid_t each = 0; text >> each;)
    all.push_back(each);
  return all;
}

/// 'R', 'S', 'T', ...; 0 without such a process.
char state_of(pid_t process) {
  const auto stat = content(fmt::format("/proc/{}/stat", process));
  const auto end = stat.rfind(") ");
  return end == std::string::npos ? '\0' : stat[end + 2];
}

bool eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 3000; ++i) {
    if (holds())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

int occurrences(const std::string& text, const std::string& of) {
  int count = 0;
  for (auto at = text.find(of); at != std::string::npos;
       at = text.find(of, at + 1))
    ++count;
  return count;
}

/// An endless training that saves when it is stopped.
struct stopped_run : tiny_training {
  std::string checkpoints = folder / "run";

  std::string training(const std::string& flags) const {
    return " train --text " + text + tiny
           + "--endpoint none --steps 1000000 --checkpoints " + checkpoints
           + " " + flags;
  }
  std::string launch(int processes, const std::string& flags) const {
    return fmt::format("{} launch --processes {} --{}", program, processes,
                       training(flags));
  }
  /// Folder names of checkpoints, the last one first.
  std::vector<std::string> saved() const {
    std::vector<std::string> names;
    if (std::filesystem::exists(checkpoints))
      for (const auto& each : std::filesystem::directory_iterator(checkpoints))
        if (each.path().filename().string().starts_with("step-"))
          names.push_back(each.path().filename().string());
    std::ranges::sort(names, std::greater{});
    return names;
  }
  /// The content of all parts of a checkpoint.
  std::string bytes_of(const std::string& name) const {
    std::vector<std::filesystem::path> parts;
    for (const auto& each :
         std::filesystem::directory_iterator(checkpoints + "/" + name))
      if (each.path().extension() == ".safetensors")
        parts.push_back(each.path());
    std::ranges::sort(parts);
    std::string all;
    for (const auto& part : parts)
      all += content(part);
    return all;
  }
};

std::string last_line(std::string text) {
  while (text.ends_with('\n'))
    text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

enum class order { launcher_first, children_first, twice };

/// A single request to stop reaches the processes in several ways.
void check_stop(const std::string& before, int processes, order sent) {
  const stopped_run at;
  CAPTURE(before, processes, static_cast<int>(sent));
  const auto command =
    processes > 1 ? at.launch(processes, fmt::format("--ranks {}", processes))
                  : program + at.training("--ranks 2");
  background_program run(before + command, at.folder / "output");
  REQUIRE(run.writes("step 2/"));
  auto all = children_of(run.pid());
  all.insert(sent == order::children_first ? all.end() : all.begin(),
             run.pid());
  if (sent == order::twice)
    all.push_back(run.pid());
  for (const auto each : all)
    ::kill(each, SIGTERM);
  CHECK(run.end(0) == 128 + SIGTERM);
  INFO(run.output());
  REQUIRE(at.saved().size() == 1);
  CHECK_THAT(
    last_line(run.output()),
    ContainsSubstring("is saved in ") && ContainsSubstring(at.saved().front()));
}

void check_stops(int repetitions) {
  for (int i = 0; i < repetitions; ++i) {
    for (const int processes : {2, 4})
      for (const auto sent :
           {order::launcher_first, order::children_first, order::twice})
        check_stop("", processes, sent);
    check_stop("", 1, order::twice);
    check_stop("timeout 300 ", 1, order::launcher_first);
    check_stop("timeout 300 ", 2, order::launcher_first);
  }
}

/// Steps after the second one take much longer than the grace time.
const std::string slow_steps =
  " --microbatches 256 --slow rank.0=200 --slow-from 3 --grace 6";

void check_overdue(int processes, const std::string& flags) {
  const stopped_run at, whole;
  CAPTURE(processes, flags);
  background_program run(processes > 1
                           ? at.launch(processes, flags + slow_steps)
                           : program + at.training(flags + slow_steps),
                         at.folder / "output");
  REQUIRE(run.writes("step 2/"));
  CHECK(run.end(SIGTERM) == 128 + SIGTERM);
  INFO(run.output());
  REQUIRE(at.saved() == std::vector<std::string>{"step-00000002"});
  CHECK_THAT(run.output(), ContainsSubstring("step 2 is saved in "));
  CHECK(run_program(program + whole.training(flags + slow_steps + " --steps 2"))
          .exit_code
        == 0);
  CHECK(at.bytes_of("step-00000002") == whole.bytes_of("step-00000002"));
}

}  // namespace

TEST_CASE("a stop that arrives several times saves a checkpoint") {
  check_stops(1);
}

TEST_CASE("stops that arrive several times always save a checkpoint",
          "[.full]") {
  check_stops(12);
}

TEST_CASE("when a step can't end in time, the step before is saved") {
  check_overdue(1, "--ranks 2");
  check_overdue(2, "--ranks 2 --schedule zb_h1 --clip 1");
  check_overdue(1, "--ranks 2 --data-parallel 2 --shard all");
}

TEST_CASE("an interrupted step of sharded processes is saved as it was",
          "[.full]") {
  check_overdue(4, "--ranks 2 --data-parallel 2 --shard all");
  check_overdue(2, "--ranks 2 --data-parallel 2 --shard gradients --clip 1");
  check_overdue(2, "--ranks 2 --stages-per-rank 2 --schedule zb_v");
  check_overdue(2, "--ranks 2 --schedule eager_1f1b --tie-embeddings");
}

TEST_CASE("a plain step that can't end in time is given up") {
  const stopped_run at;
  background_program run(
    program + at.training("--plain --microbatches 1000 --grace 0.1"),
    at.folder / "output");
  REQUIRE(run.writes("step 1/"));
  CHECK(run.end(SIGTERM) == 128 + SIGTERM);
  INFO(run.output());
  CHECK(at.saved() == std::vector<std::string>{"step-00000001"});
}

TEST_CASE("the last line says that no step was complete") {
  const stopped_run at;
  background_program run(
    program + at.training("--ranks 2 --data-parallel 2" + slow_steps)
      + " --slow-from 1",
    at.folder / "output");
  // The folder's lock is taken when the run begins.
  REQUIRE(eventually([&] { return std::filesystem::exists(at.checkpoints); }));
  CHECK(run.end(SIGTERM) == 128 + SIGTERM);
  INFO(run.output());
  CHECK(at.saved().empty());
  CHECK(last_line(run.output()) == "troupe: no checkpoint is saved");
}

TEST_CASE("SIGUSR1 saves and goes on, SIGUSR2 saves and ends") {
  for (const int processes : {1, 2}) {
    for (const std::string plain : {"", "--plain "}) {
      if (processes > 1 && !plain.empty())
        continue;
      const stopped_run at;
      CAPTURE(processes, plain);
      const auto flags = plain + "--ranks 2";
      background_program run(processes > 1 ? at.launch(processes, flags)
                                           : program + at.training(flags),
                             at.folder / "output");
      REQUIRE(run.writes("step 2/"));
      ::kill(run.pid(), SIGUSR1);
      REQUIRE(run.writes("info: checkpoint "));
      const auto first = at.saved();
      REQUIRE(first.size() == 1);
      const auto lines = occurrences(run.output(), "] step ")
                         + occurrences(run.output(), "\nstep ");
      REQUIRE(eventually([&] {
        return occurrences(run.output(), "] step ")
                 + occurrences(run.output(), "\nstep ")
               > lines;
      }));
      CHECK(at.saved() == first);
      CHECK(run.end(SIGUSR2) == 128 + SIGUSR2);
      INFO(run.output());
      CHECK(at.saved().size() == 2);
      CHECK_THAT(last_line(run.output()), ContainsSubstring("is saved in "));
    }
  }
}

TEST_CASE("a notice that comes as soon as a run starts is taken by it") {
  for (const int processes : {1, 2}) {
    const stopped_run at;
    CAPTURE(processes);
    background_program run(processes > 1 ? at.launch(processes, "--ranks 2")
                                         : program + at.training("--ranks 2"),
                           at.folder / "output");
    // The shell, which also starts with blocked signals, has become the
    // program, which blocks them first.
    REQUIRE(eventually([&] {
      const auto status = content(fmt::format("/proc/{}/status", run.pid()));
      const auto mask = status.find("SigBlk:\t");
      return status.starts_with("Name:\ttroupe") && mask != std::string::npos
             && (std::stoull(status.substr(mask + 8, 16), nullptr, 16)
                 & (1ULL << (SIGUSR1 - 1)))
                  != 0;
    }));
    ::kill(run.pid(), SIGUSR1);
    CHECK(run.writes("info: checkpoint "));
    CHECK(run.end(SIGTERM) == 128 + SIGTERM);
    INFO(run.output());
    CHECK_FALSE(at.saved().empty());
  }
}

TEST_CASE("a notice to one process ends a job as a notice to its launcher") {
  for (const std::size_t notified : {0, 1}) {
    const stopped_run at;
    CAPTURE(notified);
    background_program run(at.launch(2, "--ranks 2"), at.folder / "output");
    REQUIRE(run.writes("step 2/"));
    const auto processes = children_of(run.pid());
    REQUIRE(processes.size() == 2);
    ::kill(processes[notified], SIGUSR2);
    CHECK(run.end(0) == 128 + SIGUSR2);
    INFO(run.output());
    CHECK(at.saved().size() == 1);
  }
}

TEST_CASE("SIGUSR2 leaves a step its time, and a later SIGTERM a limit") {
  const stopped_run at;
  background_program run(program + at.training("--ranks 2" + slow_steps),
                         at.folder / "output");
  REQUIRE(run.writes("step 2/"));
  ::kill(run.pid(), SIGUSR2);
  REQUIRE(run.writes("ended on notice"));
  CHECK(run.end(SIGTERM) == 128 + SIGTERM);
  INFO(run.output());
  CHECK(at.saved() == std::vector<std::string>{"step-00000002"});
}

TEST_CASE("a second signal ends a run and its launcher at once") {
  const stopped_run at;
  background_program run(
    at.launch(2, "--ranks 2" + slow_steps + " --grace 1000"),
    at.folder / "output");
  REQUIRE(run.writes("step 2/"));
  const auto processes = children_of(run.pid());
  REQUIRE(processes.size() == 2);
  const auto code = run.insist(SIGINT, 30);
  INFO(run.output());
  CHECK(code == 128 + SIGINT);
  for (const auto each : processes)
    CHECK(eventually([&] { return state_of(each) == '\0'; }));
  CHECK_THAT(run.output(), ContainsSubstring("a second signal: ended at once"));
}

TEST_CASE("Ctrl-Z on a launcher stops its processes, too") {
  const stopped_run at;
  background_program run(at.launch(2, "--ranks 2"), at.folder / "output");
  REQUIRE(run.writes("step 2/"));
  const auto processes = children_of(run.pid());
  REQUIRE(processes.size() == 2);
  ::kill(run.pid(), SIGTSTP);
  for (const auto each : {processes[0], processes[1], run.pid()})
    CHECK(eventually([&] { return state_of(each) == 'T'; }));
  ::kill(run.pid(), SIGCONT);
  for (const auto each : processes)
    CHECK(eventually([&] { return state_of(each) != 'T'; }));
  CHECK(run.end(SIGTERM) == 128 + SIGTERM);
  CHECK(at.saved().size() == 1);
}

TEST_CASE("a run that is the first process of a container ends at once") {
  if (run_program("unshare --pid --fork --mount-proc true").exit_code != 0)
    SKIP("unshare of root is needed");
  const stopped_run at;
  background_program run(
    "unshare --pid --fork --mount-proc " + program
      + at.training("--ranks 2" + slow_steps + " --grace 1000"),
    at.folder / "output");
  REQUIRE(run.writes("step 2/"));
  const auto inside = children_of(run.pid());
  REQUIRE(inside.size() == 1);
  CHECK(eventually([&] {
    ::kill(inside.front(), SIGTERM);
    return state_of(inside.front()) == '\0' || state_of(inside.front()) == 'Z';
  }));
  CHECK(run.end(0) == 128 + SIGTERM);
  CHECK_THAT(run.output(), ContainsSubstring("a second signal: ended at once"));
}
