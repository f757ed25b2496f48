#include <fmt/format.h>
#include <sys/wait.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>

#include "background_job.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// A job with one rank per process.
struct small_job {
  small_job(int count, const std::string& flags)
    : run(count, fmt::format("{} --ranks {} {}", training, count, flags),
          folder / ".") {}

  temporary_folder folder;
  std::string training = fmt::format(
    "{} train --text {} --d-model 16 --layers 4 --heads 2 --seq 8"
    " --microbatch-size 2 --microbatches 4 --clip 0.5 --endpoint none",
    TROUPE_PROGRAM, write_text(folder));
  background_job run;
};

std::string named(std::size_t process) {
  return fmt::format("process {} (rank {}) ", process, process);
}

}  // namespace

TEST_CASE("a process that is killed is named by the others, which end") {
  std::mt19937 random(11);
  for (const std::size_t victim : {0, 1, 2}) {
    const small_job at(3, " --steps 1000000");
    const auto step = 1 + random() % 40;
    INFO("process " << victim << " is killed after step " << step);
    REQUIRE(at.run.processes[0]->writes("step " + std::to_string(step) + "/"));
    at.run.signal(victim, SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    for (std::size_t p = 0; p < 3; ++p) {
      const auto code = at.run.processes[p]->end(0);
      CHECK(code == (p == victim ? 128 + SIGKILL : 1));
      if (p != victim)
        CHECK_THAT(at.run.processes[p]->output(),
                   ContainsSubstring(named(victim) + "is gone"));
    }
    CHECK(std::chrono::steady_clock::now() - killed < std::chrono::seconds(20));
  }
}

TEST_CASE("clients of a job that fails end with the reason") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "endpoint");
  const background_job run(
    2,
    fmt::format("{} train --text {} --d-model 16 --layers 4 --heads 2 --seq 8"
                " --microbatch-size 2 --microbatches 4 --ranks 2"
                " --steps 1000000 --endpoint {}",
                TROUPE_PROGRAM, write_text(folder), where),
    folder / ".");
  REQUIRE(run.processes[0]->writes("step 1/"));
  std::vector<std::unique_ptr<background_program>> clients;
  for (const std::string words :
       {"events {}", "attach {} throughput", "top --json --interval 0.1 {}"})
    clients.push_back(std::make_unique<background_program>(
      fmt::format("{} {}", TROUPE_PROGRAM,
                  fmt::format(fmt::runtime(words), where)),
      folder / words.substr(0, 3)));
  REQUIRE(clients[0]->writes("step "));
  REQUIRE(clients[1]->writes("throughput/bubble"));
  REQUIRE(clients[2]->writes("step_took"));
  run.signal(1, SIGKILL);
  for (const auto& each : clients) {
    CHECK(each->end(0) == 1);
    CHECK_THAT(each->output(), ContainsSubstring("the job has failed: ")
                                 && ContainsSubstring("process 1 (rank 1)"));
  }
}

TEST_CASE("a run waits for a process that is stopped, and keeps its bits",
          "[.full]") {
  const temporary_folder saved;
  const std::string flags = " --steps 2000 --save-parameters ";
  const small_job at(2, flags + (saved / "job"));
  REQUIRE(at.run.processes[0]->writes("step 20/"));
  at.run.signal(1, SIGSTOP);
  CHECK(at.run.processes[0]->writes("no message from " + named(1)));
  at.run.signal(1, SIGCONT);
  for (const auto& each : at.run.processes)
    CHECK(each->end(0) == 0);
  CHECK_THAT(at.run.processes[0]->output(),
             ContainsSubstring("is responding again"));
  CHECK(
    run_program(at.training + " --plain --ranks 2" + flags + (saved / "plain"))
      .exit_code
    == 0);
  CHECK(content(saved / "job") == content(saved / "plain"));
}

TEST_CASE("a process that waited for a killed one says for what", "[.full]") {
  const small_job at(2, " --steps 1000000");
  REQUIRE(at.run.processes[0]->writes("step 20/"));
  at.run.signal(1, SIGSTOP);  // so that the other one waits for certain
  REQUIRE(at.run.processes[0]->writes("no message from " + named(1)));
  at.run.signal(1, SIGKILL);
  CHECK(at.run.processes[0]->end(0) == 1);
  CHECK_THAT(
    at.run.processes[0]->output(),
    ContainsSubstring(named(1) + "is gone") && ContainsSubstring("; rank 0 "));
}
