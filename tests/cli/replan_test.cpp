// Orders of ops from the command line: sent to a live job, found by it, logged
// and replayed.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include "background_program.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("a live job takes up a schedule by name and by file") {
  const tiny_training at;
  const auto socket = "unix:" + (at.folder / "socket");
  const auto saved = at.folder / "saved", plain = at.folder / "plain";
  background_program job(program + " train --text " + at.text + tiny
                           + "--steps 100000000 --ranks 2 --endpoint " + socket,
                         at.folder / "job");
  REQUIRE(job.writes("attach with: troupe top "));
  const auto named = run_troupe("replan", socket, "--schedule zb_h1 --force");
  INFO(named.output);
  CHECK(named.exit_code == 0);
  CHECK_THAT(named.output, ContainsSubstring("the job switches to zb_h1"));
  CHECK(job.writes("switches to zb_h1"));
  const auto csv = at.folder / "own.csv";
  CHECK(run_troupe("plan", "",
                   "--schedule gpipe --ranks 2 --microbatches 4 --format csv "
                   "-o "
                     + csv)
          .exit_code
        == 0);
  CHECK(run_troupe("replan", socket, "--force --schedule " + csv).exit_code
        == 0);
  CHECK(job.writes("own.csv"));
  for (const std::string& flags :
       {std::string{"--schedule gpipe"}, "--force --schedule " + csv}) {
    const auto same = run_troupe("replan", socket, flags);
    CHECK(same.exit_code == 0);
    CHECK_THAT(same.output,
               ContainsSubstring("the job already runs the order of "));
  }
  const auto refused = run_troupe("replan", socket, "--schedule zb_v");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output,
             ContainsSubstring("stages per rank must be 2, not 1, "
                               "which a live job can't change"));
  CHECK(run_troupe("replan", socket, "").exit_code == 2);
  CHECK(run_troupe("replan", socket, "--search --memory-limit 5").exit_code
        == 2);
  for (const auto* flags :
       {"--schedule gpipe --sizes kept=1", "--search --force"})
    CHECK(run_troupe("replan", socket, flags).exit_code == 2);
  const auto searched = run_troupe("replan", socket, "--search --json");
  INFO(searched.output);
  CHECK(searched.exit_code == 0);
  const auto answer = nlohmann::json::parse(searched.output);
  CHECK(answer.at("now").get<double>() > 0);
  CHECK(answer.at("predicted").get<double>() > 0);
  CHECK(answer.at("uncertainty").get<double>() > 0);
  CHECK((answer.at("trial_steps").get<int>() >= 3
         || answer.at("then") == answer.at("predicted")));
  CHECK(job.end(SIGTERM) == 143);
}

TEST_CASE("a run that looks for better orders trains the same bytes") {
  const tiny_training at;
  const std::string schedule = GENERATE("1f1b", "dualpipe");
  const auto a = at.folder / "a", b = at.folder / "b", log = at.folder / "log";
  const auto flags =
    "--schedule " + schedule + " --ranks 2 --steps 80 --save-parameters ";
  CHECK(at.train(flags + a + " --plain").exit_code == 0);
  const auto run = at.train(flags + b
                            + " --replan-every 3 --slow rank.1=3 --slow-from 4 "
                              "--order-log "
                            + log);
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, !ContainsSubstring("could not search"));
  CHECK(content(a) == content(b));
  CHECK_THAT(content(log), ContainsSubstring("step 80 replica 0 rank 1: "));
}

TEST_CASE("a log is replayed, and one that ends too early is refused") {
  const tiny_training at;
  const auto first = at.folder / "1", second = at.folder / "2";
  CHECK(at.train("--ranks 2 --order ready_first --order-log " + first).exit_code
        == 0);
  CHECK(
    at.train("--ranks 2 --replay " + first + " --order-log " + second).exit_code
    == 0);
  CHECK(content(first) == content(second));
  const auto longer = at.train("--ranks 2 --steps 5 --replay " + first);
  CHECK(longer.exit_code == 2);
  CHECK_THAT(longer.output,
             ContainsSubstring("step 4: the log has no order for replica 0"));
  CHECK(at.train("--ranks 2 --slow rank.2=2").exit_code == 2);
}

TEST_CASE("copies and versions train the plain loop's bytes") {
  const tiny_training at;
  const auto a = at.folder / "a", b = at.folder / "b";
  for (const std::string flags :
       {"--ranks 2 --schedule dualpipe --clip 1",
        "--ranks 2 --schedule weight_stash",
        "--ranks 2 --schedule two_bw --breadth 2 --data-parallel 2"}) {
    INFO(flags);
    CHECK(at.train(flags + " --plain --save-parameters " + a).exit_code == 0);
    CHECK(at.train(flags + " --save-parameters " + b).exit_code == 0);
    CHECK(content(a) == content(b));
  }
  const auto refused = at.train("--ranks 2 --schedule two_bw --clip 1");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("clipping, a dynamic loss"));
}
