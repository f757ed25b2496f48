// Jobs of several processes that go on when some are killed.
#include <fmt/format.h>
#include <signal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "background_program.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

std::string environment_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A launched job that heals.
class healing_job {
 public:
  /// `more`: flags that a plain loop does not take.
  healing_job(const std::string& launch, const std::string& train,
              const std::string& more = "--endpoint none")
    : train_(train),
      run_(fmt::format("{} launch {} -- train --text {} {} {} --heal {}",
                       program, launch, at_.text, tiny, with_outputs(), more),
           at_.folder / "output") {}

  /// The process of this number, once it has begun to run.
  pid_t process(int number) const {
    const auto wanted = fmt::format("RANK={}", number);
    for (int i = 0; i < 2000; ++i) {
      std::ifstream file(
        fmt::format("/proc/{0}/task/{0}/children", run_.pid()));
      for (pid_t pid = 0; file >> pid;)
        if (environment_of(pid).find('\0' + wanted + '\0') != std::string::npos)
          return pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    throw std::runtime_error("there is no process " + wanted);
  }
  /// Waits until the output shows this step.
  bool reaches(int step) const {
    return run_.writes(fmt::format("step {}/", step));
  }
  bool says(const std::string& text) const { return run_.writes(text); }
  /// The command of a process that joins.
  std::string joining(const std::string& more) const {
    return at_.command(with_outputs() + " " + more);
  }
  /// Waits until the job has so many processes, of which each hosts ranks.
  bool has(const std::string& socket, std::size_t processes) const {
    for (int i = 0; i < 400; ++i) {
      const auto answer =
        run_program(fmt::format("{} ranks {}", program, socket)).output;
      const auto hosts = [&] {
        for (std::size_t p = 0; p < processes; ++p)
          if (answer.find(fmt::format("\n{:<9}", p)) == std::string::npos)
            return false;
        return answer.find("none") == std::string::npos;
      };
      if (hosts()
          && answer.find(fmt::format("\n{:<9}", processes))
               == std::string::npos)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  int end() { return run_.end(0); }
  int end_by(int number) { return run_.end(number); }
  std::string output() const { return run_.output(); }

  /// Whether the parameters are those of a plain loop, and each step is logged
  /// once.
  void check_result(int steps) const {
    const auto plain =
      at_.train(fmt::format("--plain {} --steps {} --save-parameters {}",
                            train_, steps, at_.folder / "plain"));
    REQUIRE(plain.exit_code == 0);
    CHECK(content(at_.folder / "healed") == content(at_.folder / "plain"));
    std::istringstream log(content(at_.folder / "log"));
    std::map<std::string, int> lines;
    for (std::string line; std::getline(log, line);) {
      const auto place = line.find("\"step\":");
      if (line.find("validation") == std::string::npos
          && line.find("\"epoch\"") == std::string::npos)
        ++lines[line.substr(place, line.find(',', place) - place)];
    }
    for (int step = 1; step <= steps; ++step)
      CHECK(lines[fmt::format("\"step\":{}", step)] == 1);
  }
  const tiny_training& at() const { return at_; }

 private:
  std::string with_outputs() const {
    return fmt::format("{} --save-parameters {} --log-json {}", train_,
                       at_.folder / "healed", at_.folder / "log");
  }

  const tiny_training at_;
  const std::string train_;
  background_program run_;
};

}  // namespace

TEST_CASE("any process of a job can be killed without changing its bits") {
  healing_job job("--processes 3",
                  "--ranks 3 --layers 6 --clip 0.5 --steps 600 "
                  "--validation-fraction 0");
  int step = 30;
  for (const int victim : {0, 2, 1, 0}) {
    INFO(job.output());
    REQUIRE(job.reaches(step));
    ::kill(job.process(victim), SIGKILL);
    step += 130;
  }
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  job.check_result(600);
}

TEST_CASE("a spare process takes the place of a lost one") {
  healing_job job("--processes 2 --spares 1",
                  "--data-parallel 2 --ranks 1 --dropout 0.2 --steps 300 "
                  "--snapshot-every 7 --validation-fraction 0");
  REQUIRE(job.reaches(40));
  ::kill(job.process(1), SIGKILL);
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  CHECK_THAT(job.output(), ContainsSubstring("was lost"));
  job.check_result(300);
}

TEST_CASE("states that nobody holds any more come from the last checkpoint") {
  const temporary_folder saved;
  healing_job job(
    "--processes 2",
    "--ranks 2 --steps 300 --validation-fraction 0 --checkpoint-every 50 "
    "--checkpoints "
      + (saved / "run"));
  REQUIRE(job.reaches(120));
  const auto one = job.process(0), other = job.process(1);
  ::kill(one, SIGKILL);
  ::kill(other, SIGKILL);
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  CHECK_THAT(job.output(), ContainsSubstring("resuming from"));
}

TEST_CASE("a process leaves on SIGTERM and the job goes on") {
  healing_job job("--processes 3",
                  "--ranks 3 --layers 6 --steps 400 --validation-fraction 0");
  REQUIRE(job.reaches(40));
  ::kill(job.process(0), SIGTERM);
  CHECK(job.says("this process has left the job"));
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  job.check_result(400);
}

TEST_CASE("ranks live in more and fewer processes with the same bits") {
  const temporary_folder folder;
  const auto socket = "unix:" + (folder / "job");
  healing_job job("--processes 1",
                  "--ranks 4 --data-parallel 2 --clip 0.5 "
                  "--validation-fraction 0 --steps 100000",
                  "--endpoint " + socket);
  REQUIRE(job.says("step 10/"));
  std::vector<std::unique_ptr<background_program>> joined;
  for (const std::size_t processes : {2, 4, 8, 3, 1}) {
    INFO(job.output());
    while (joined.size() + 1 < processes)
      joined.push_back(std::make_unique<background_program>(
        job.joining("--endpoint none --join " + socket),
        folder / fmt::format("{}", joined.size())));
    for (auto leaving = processes; leaving < joined.size() + 1; ++leaving)
      ::kill(joined[leaving - 1]->pid(), SIGTERM);
    INFO(run_program(program + " ranks " + socket).output);
    REQUIRE(job.has(socket, processes));
    for (; joined.size() + 1 > processes; joined.pop_back())
      CHECK(joined.back()->end(0) == 0);
  }
  ::kill(job.process(0), SIGINT);
  CHECK(job.end() == 128 + SIGINT);
  const std::string last = "(SIGINT) after step ";
  const auto place = job.output().rfind(last);
  REQUIRE(place != std::string::npos);
  job.check_result(std::stoi(job.output().substr(place + last.size())));
}

TEST_CASE("SIGTERM to the launcher ends a job that heals") {
  healing_job job("--processes 2", "--ranks 2 --steps 1000000");
  REQUIRE(job.reaches(20));
  CHECK(job.end_by(SIGTERM) == 128 + SIGTERM);
}

TEST_CASE("a job that loses too many processes stops") {
  healing_job job("--processes 2 --max-losses 0", "--ranks 2 --steps 1000000");
  REQUIRE(job.reaches(20));
  ::kill(job.process(1), SIGKILL);
  const auto code = job.end();
  INFO(job.output());
  CHECK(code != 0);
  CHECK_THAT(job.output(), ContainsSubstring("the job was stopped"));
}

TEST_CASE("a job that can't heal says why") {
  const tiny_training at;
  const auto alone =
    run_program("env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 "
                + at.command("--ranks 2 --heal"));
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.output,
             ContainsSubstring("start the job by `troupe launch"));
  const auto spare =
    run_program(program + " launch --processes 2 --spares 1 -- train --text "
                + at.text + tiny + "--ranks 2");
  CHECK(spare.exit_code == 2);
  CHECK_THAT(spare.output, ContainsSubstring("give --heal, too"));
}
