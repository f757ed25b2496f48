// Jobs of several processes that go on when some are killed.
#include <fmt/format.h>
#include <signal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memory>
#include <string>
#include <vector>

#include "healing_job.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using namespace troupe::testing;

TEST_CASE("any process of a job can be killed without changing its bits") {
  healing_job job("--processes 3",
                  "--ranks 3 --layers 6 --clip 0.5 --steps 600 "
                  "--validation-fraction 0");
  int step = 30;
  for (const int victim : {0, 2, 1, 0}) {
    job.kill_after(step, victim);
    step += 130;
  }
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  job.check_result(600);
}

TEST_CASE("an evaluation that a loss cuts off is done again") {
  healing_job job("--processes 2",
                  "--ranks 2 --steps 24 --eval-every 1 "
                  "--validation-fraction 0.5 --validation-microbatches 64");
  int step = 3;
  for (const int victim : {0, 1, 0}) {
    job.kill_after(step, victim);
    step += 6;
  }
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  job.check_result(24);
}

TEST_CASE("a spare process takes the place of a lost one") {
  healing_job job("--processes 2 --spares 1",
                  "--data-parallel 2 --ranks 1 --dropout 0.2 --steps 300 "
                  "--snapshot-every 7 --validation-fraction 0");
  job.kill_after(40, 1);
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

TEST_CASE("a process that does not come in time is started again") {
  healing_job job("--processes 2", "--ranks 2 --steps 5 --patience 4");
  ::kill(job.process(0), SIGSTOP);
  CHECK(job.says("has not come, or is silent, after 4"));
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  CHECK_THAT(job.output(), ContainsSubstring("is started again"));
}

TEST_CASE("a job does not wait for a process that was told to end too early") {
  healing_job job("--processes 2", "--ranks 2 --steps 5");
  const auto late = job.process(0);
  ::kill(late, SIGSTOP);
  REQUIRE(job.says("waiting for process 0: the job begins when all have come"));
  ::kill(late, SIGTERM);
  ::kill(late, SIGCONT);
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 143);
  CHECK_THAT(job.output(),
             ContainsSubstring("process 0 was the first to fail"));
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
  healing_job job("--processes 2 --on-failure process=rehost:1/10min",
                  "--ranks 2 --steps 1000000");
  job.kill_after(20, 1);
  REQUIRE(job.says("process 1 (pid "));
  REQUIRE(job.says("is started again"));
  REQUIRE(job.goes_on(2));
  ::kill(job.process(0), SIGKILL);
  const auto code = job.end();
  const auto output = job.output();
  INFO(output);
  CHECK(code == 1);
  CHECK_THAT(output,
             ContainsSubstring("no checkpoint is saved")
               && EndsWith("troupe: the job was stopped: 2 processes were lost "
                           "within 10min (--on-failure allows 1)\n"));
  CHECK(output.find("is started again") == output.rfind("is started again"));
}

TEST_CASE("the loss of the only process can be one too many") {
  healing_job job("--processes 1 --on-failure process=stop",
                  "--ranks 2 --steps 1000000");
  job.kill_after(20, 0);
  CHECK(job.end() == 128 + SIGKILL);
}

TEST_CASE("what a job does after failures is refused where it does not heal") {
  const auto refused = run_program(
    program + " launch --on-failure process=stop -- train --ranks 2");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("give train --heal, too"));
}

TEST_CASE("a job that stops saves the states that are left") {
  const temporary_folder saved;
  healing_job job("--processes 3 --on-failure process=stop",
                  "--ranks 3 --layers 6 --validation-fraction 0 --steps 100000",
                  "--endpoint none --checkpoints " + (saved / "run"));
  job.kill_after(40, 1);
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 1);
  const auto output = job.output();
  const auto place = output.find("the job was stopped: ");
  const auto end = output.find(" is saved in ", place);
  REQUIRE(end != std::string::npos);
  job.check_result(std::stoi(output.substr(output.rfind("step ", end) + 5)));
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
