// Ranks of a live job that move, from the command line.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "background_program.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("ranks of a live job move by command") {
  const tiny_training at;
  const auto socket = "unix:" + (at.folder / "socket");
  background_program job(program + " launch --processes 2 -- train --text "
                           + at.text + tiny
                           + "--ranks 2 --steps 100000000 --endpoint " + socket,
                         at.folder / "job");
  REQUIRE(job.writes("attach with: troupe top "));
  const auto before = run_troupe("ranks", socket, "");
  INFO(before.output);
  CHECK(before.exit_code == 0);
  CHECK_THAT(before.output, ContainsSubstring("process  ranks\n0        0\n"
                                              "1        1\n"));
  const auto moved = run_troupe("move", socket, "1 0 --json");
  INFO(moved.output);
  CHECK(moved.exit_code == 0);
  CHECK(nlohmann::json::parse(moved.output).at("hosting")
        == nlohmann::json::array({0, 0}));
  CHECK(job.writes("rank 1 moved from process 1 to process 0"));
  CHECK_THAT(run_troupe("drain", socket, "0").output,
             ContainsSubstring("0        none\n1        0 1\n"));
  CHECK(job.writes("ranks 0 and 1 moved from process 0 to process 1"));
  for (const auto* wrong : {"2 0", "0 2", "0", "0 x", "0 1 1"}) {
    CAPTURE(wrong);
    const auto refused = run_troupe("move", socket, wrong);
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.output, ContainsSubstring("troupe: error: "));
  }
  CHECK(run_troupe("drain", socket, "7").exit_code == 2);
  CHECK(job.end(SIGTERM) == 128 + SIGTERM);
}

TEST_CASE("a run of one process has no other for its ranks") {
  const tiny_training at;
  const auto socket = "unix:" + (at.folder / "socket");
  background_program job(program + " train --text " + at.text + tiny
                           + "--ranks 2 --steps 100000000 --endpoint " + socket,
                         at.folder / "job");
  REQUIRE(job.writes("attach with: troupe top "));
  CHECK_THAT(run_troupe("ranks", socket, "").output,
             ContainsSubstring("0        0 1\n"));
  const auto refused = run_troupe("move", socket, "1 0");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("is a run of one process"));
  CHECK(job.end(SIGTERM) == 128 + SIGTERM);
}
