// Ranks of a job that heals, from the command line.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <sched.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "healing_job.hpp"
#include "troupe/cli/live/ranks_table.hpp"
#include "troupe/monitors/live/job_server.hpp"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace troupe::testing;

namespace {

json answer_of_ranks(const std::string& command, const std::string& socket,
                     const std::string& words) {
  const auto run = run_troupe(command, socket, words + " --json 2>/dev/null");
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  return json::parse(run.output);
}

const json an_answer{
  {"processes", 3},
  {"replicas", 1},
  {"ranks", 4},
  {"hosting", {0, 2, 0, 2}},
  {"epoch", 3},
  {"step", 120},
  {"copied", 118},
  {"members",
   {{{"pid", 4711}, {"seconds", 3723.4}}, {{"pid", 4802}, {"seconds", 20}}}},
  {"busy", {0.9, 0.5, 0.8, nullptr}}};

/// Binds what this thread starts to one of its cores, while it lives.
class bound_to_core {
 public:
  explicit bound_to_core(int number) {
    CPU_ZERO(&before_);
    ::sched_getaffinity(0, sizeof before_, &before_);
    auto one = before_;
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &before_) && number-- != 0)
        CPU_CLR(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~bound_to_core() { ::sched_setaffinity(0, sizeof before_, &before_); }
  bound_to_core(const bound_to_core&) = delete;
  bound_to_core& operator=(const bound_to_core&) = delete;

  static bool can_bind(int processes) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ::sched_getaffinity(0, sizeof mask, &mask);
    return CPU_COUNT(&mask) >= processes;
  }

 private:
  cpu_set_t before_;
};

}  // namespace

TEST_CASE("the ranks of a job that heals are shown with its processes") {
  CHECK(troupe::cli::ranks_table(an_answer)
        == "epoch 3, step 120\n"
           "process  pid      in it for busy   ranks\n"
           "0        4711     1:02:03   85 %   0 2\n"
           "1        4802     0:20      -      none\n"
           "2        -        -         -      1 3\n"
           "A second process holds each rank's state of step 118, or of a "
           "later one.\n");
  auto alone = an_answer;
  alone["copied"] = nullptr;
  CHECK_THAT(troupe::cli::ranks_table(alone),
             ContainsSubstring("No second process holds the ranks' states"));
}

TEST_CASE("ranks of a job that heals have moved when the command returns") {
  const temporary_folder folder;
  const auto socket = "unix:" + (folder / "job");
  healing_job job("--processes 2",
                  "--ranks 2 --validation-fraction 0 --steps 1000000",
                  "--endpoint " + socket);
  REQUIRE(job.reaches(20));
  const auto before = answer_of_ranks("ranks", socket, "");
  CHECK(before["hosting"] == json{0, 1});
  CHECK(before["epoch"] == 1);
  REQUIRE(before["members"].size() == 2);
  for (int p = 0; p < 2; ++p) {
    CHECK(before["members"][p]["pid"] == job.process(p));
    CHECK(before["members"][p]["seconds"] > 0);
    CHECK(before["busy"][p] > 0);
  }
  CHECK(before["copied"] > 0);
  const auto moved = answer_of_ranks("move", socket, "1 0");
  CHECK(moved["hosting"] == json{0, 0});
  CHECK(moved["epoch"] == 2);
  CHECK_FALSE(moved.contains("requested"));
  const auto drained = answer_of_ranks("drain", socket, "0");
  CHECK(drained["hosting"] == json{1, 1});
  CHECK(drained["epoch"] == 3);
  // Nothing changes, so that there is nothing to wait for.
  CHECK(answer_of_ranks("drain", socket, "0")["epoch"] == 3);
  CHECK_THAT(job.output(), ContainsSubstring("MiB of states moved"));
  ::kill(job.process(0), SIGINT);
  CHECK(job.end() == 128 + SIGINT);
}

TEST_CASE("a process that is started again has the ranks that it had") {
  const temporary_folder folder;
  const auto socket = "unix:" + (folder / "job");
  healing_job job("--processes 3 --on-failure process=restart:3/10min",
                  "--ranks 6 --layers 6 --hosting 0,1,1,1,2,0 --steps 500 "
                  "--validation-fraction 0",
                  "--endpoint " + socket);
  REQUIRE(job.reaches(30));
  const auto pids_of = [&] {
    const auto answer = answer_of_ranks("ranks", socket, "");
    std::vector<std::int64_t> pids;
    for (const auto& process : answer["hosting"])
      pids.push_back(answer["members"][process.get<int>()]["pid"]);
    return pids;
  };
  auto wanted = pids_of();
  const auto lost = job.process(1);
  ::kill(lost, SIGKILL);
  REQUIRE(job.says("3 processes go on after step"));
  std::ranges::replace(wanted, lost, job.process(1));
  CHECK(pids_of() == wanted);
  const auto code = job.end();
  INFO(job.output());
  CHECK(code == 0);
  CHECK_THAT(job.output(), ContainsSubstring("epoch 2: process 1")
                             && !ContainsSubstring("epoch 3"));
  job.check_result(500);
}

TEST_CASE("a move that does not come is reported once its time is over") {
  const temporary_folder folder;
  troupe::job_operations operations;
  operations.info = [] { return json::object(); };
  operations.ranks = [] { return an_answer; };
  operations.rehost = [](const json&) {
    auto answer = an_answer;
    answer["requested"] = {0, 0, 0, 0};
    return answer;
  };
  const troupe::job_server job("unix:" + (folder / "job"),
                               {.operations = operations});
  const auto late = run_troupe("move", job.where(), "1 0 --wait 0.1");
  INFO(late.output);
  CHECK(late.exit_code == 1);
  CHECK_THAT(late.output, ContainsSubstring("have not moved within 0.1 s, as "
                                            "the job is still in epoch 3"));
}

TEST_CASE("a rank moves by itself to a process with an idle core", "[serial]") {
  if (!bound_to_core::can_bind(2))
    SKIP("needs two cores");
  const tiny_training at;
  const auto authority = "unix:" + (at.folder / "authority");
  const std::string model =
    "--ranks 4 --d-model 64 --seq 64 --microbatches 4 --steps 160 "
    "--validation-fraction 0 --save-parameters ";
  const background_program decides(program + " authority --listen " + authority,
                                   at.folder / "decides");
  REQUIRE(decides.writes("the authority is at"));
  std::vector<std::unique_ptr<background_program>> processes;
  for (int p = 0; p < 2; ++p) {
    const bound_to_core bound(p);
    processes.push_back(std::make_unique<background_program>(
      fmt::format("env RANK={0} WORLD_SIZE=2 LOCAL_RANK={0} LOCAL_WORLD_SIZE=2 "
                  "{1} {2} --authority {3} --rebalance auto "
                  "--slow rank.1=8,rank.2=8 --hosting 0,0,0,1 --endpoint none",
                  p, at.command(""), model + (at.folder / "moved"), authority),
      at.folder / fmt::format("process{}", p)));
  }
  for (const auto& process : processes) {
    const auto code = process->end(0);
    INFO(process->output());
    CHECK(code == 0);
  }
  const auto output = processes.front()->output();
  INFO(output);
  // Which of the two slow ranks moves is for the measured times to say.
  CHECK_THAT(output, ContainsSubstring("rebalance: ranks move from processes "
                                       "0,0,0,1 to "));
  CHECK_THAT(output, ContainsSubstring("2 processes go on after step"));
  const auto plain = at.train("--plain " + model + (at.folder / "plain"));
  REQUIRE(plain.exit_code == 0);
  CHECK(content(at.folder / "moved") == content(at.folder / "plain"));
}
