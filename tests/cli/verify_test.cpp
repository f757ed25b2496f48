#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <string_view>

#include "../temporary_folder.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

auto verify(std::string_view flags, std::string_view more = {}) {
  return run_troupe("verify", flags, more);
}

}  // namespace

TEST_CASE("verify says how to make the file that it takes") {
  CHECK_THAT(
    run_troupe("verify", "--schedule 1f1b").output,
    ContainsSubstring("verify has no flag --schedule; use --plan FILE, "
                      "as `troupe plan --schedule NAME -o FILE.plan`"));
}

TEST_CASE("verify proves PyTorch's lowered schedules") {
  const auto run =
    verify(case_file("zbv_p2_v2_m2.comms.csv"), "--transport rendezvous");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("(rendezvous, one FIFO for each edge): makes "
                               "progress, as every op completes"));
}

TEST_CASE("verify's verdict depends on the transport") {
  const temporary_folder folder;
  const auto path = folder.write(
    "early.csv", "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  CHECK(verify(path).exit_code == 0);
  CHECK(verify(path, "--transport credited").exit_code == 0);
  const auto shared = verify(path, "--shared-fifo");
  CHECK(shared.exit_code == 1);
  CHECK_THAT(shared.output,
             ContainsSubstring("deadlock: rank 1 at 1F0 waits for 0SEND_F0 of "
                               "rank 0, which is behind 0RECV_B0"));
  const auto blocking = verify(path, "--transport rendezvous");
  CHECK(blocking.exit_code == 1);
  CHECK_THAT(blocking.output,
             ContainsSubstring("rank 0 at 0RECV_B0 waits for 1SEND_B0"));
}

TEST_CASE("verify refuses a malformed file, with its place") {
  const temporary_folder folder;
  const auto run = verify(folder.write("bad.csv", "0F0,0B\n"));
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output,
             ContainsSubstring("bad.csv, line 1, cell 2 (column 5) '0B': a "
                               "microbatch number is missing"));
}

TEST_CASE("verify warns of credits that the transport does not have") {
  const auto path = case_file("zbv_p2_v2_m2.comms.csv ");
  CHECK_THAT(verify(path, "--credits 1").output,
             ContainsSubstring("warning: --credits 1 has no effect with "
                               "--transport buffered"));
  CHECK_THAT(verify(path, "--credits 1 --transport credited").output,
             !ContainsSubstring("warning"));
  const auto none = verify(path, "--credits 0 --transport credited");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.output,
             ContainsSubstring("--credits: 0 is not a whole number"));
}

TEST_CASE("verify draws the cycle of waits") {
  const temporary_folder folder;
  const auto svg = folder / "cycle.svg";
  const auto early = folder.write(
    "early.csv", "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  CHECK(verify(early, "--transport rendezvous --svg " + svg).exit_code == 1);
  CHECK_THAT(troupe::read_file(svg),
             ContainsSubstring("2. rank 1 at 1RECV_F0 waits for 0SEND_F0"));
  // Lanes that can't be compiled, under any transport.
  const auto lanes =
    folder.write("lanes.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  const auto run = verify(lanes, "--theme dark --svg " + svg);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("lanes.csv: the lanes wait for each "
                                           "other: rank 0 at 0B0"));
  CHECK_THAT(troupe::read_file(svg),
             ContainsSubstring("1. rank 0 at 0B0 waits for 1B0 of rank 1")
               && ContainsSubstring("#12181f"));
  CHECK_THAT(verify(early, "--svg " + folder / "none.svg").output,
             ContainsSubstring("warning: --svg")
               && ContainsSubstring("there is no deadlock to draw"));
}

TEST_CASE("verify reports as JSON, deadlocks too") {
  const temporary_folder folder;
  const auto early = folder.write(
    "early.csv", "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n");
  const auto report = [&](const std::string& flags, int exit_code) {
    const auto run = run_program(fmt::format(
      "( {} verify {} --json 2>/dev/null )", TROUPE_PROGRAM, flags));
    CHECK(run.exit_code == exit_code);
    return nlohmann::json::parse(run.output);
  };
  CHECK(report(early, 0)
        == nlohmann::json({{"file", early},
                           {"transport", "buffered"},
                           {"shared_fifo", false},
                           {"progress", true},
                           {"cycle", nlohmann::json::array()},
                           {"ranks", 2},
                           {"stages", 2},
                           {"microbatches", 1},
                           {"ops", 8},
                           {"messages", 2}}));
  const auto stuck = report(early + " --transport rendezvous", 1);
  CHECK(stuck["progress"] == false);
  CHECK(stuck["cycle"][1]
        == nlohmann::json(
          {{"rank", 1},
           {"op", "1RECV_F0"},
           {"for_rank", 0},
           {"for_op", "0SEND_F0"},
           {"text", "rank 1 at 1RECV_F0 waits for 0SEND_F0 of rank 0"}}));
  const auto lanes =
    report(folder.write("lanes.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"), 1);
  CHECK(lanes["progress"] == false);
  CHECK(lanes["cycle"].size() == 2);
}

TEST_CASE("verify refuses wrong usage with exit code 2") {
  CHECK(verify("").exit_code == 2);
  CHECK(verify("x.csv --transport pigeon").exit_code == 2);
  CHECK(verify("/absent.csv").exit_code == 1);
}

TEST_CASE("the least credits are listed by channel") {
  const temporary_folder folder;
  const auto csv = folder / "1f1b.csv";
  CHECK(run_troupe("plan", "--schedule 1f1b --ranks 3 --microbatches 6",
                   "--format csv -o " + csv)
          .exit_code
        == 0);
  const auto table = run_troupe("verify", csv, "--least-credits");
  INFO(table.output);
  CHECK(table.exit_code == 0);
  CHECK_THAT(
    table.output,
    Catch::Matchers::ContainsSubstring("for the makespan   for progress")
      && Catch::Matchers::ContainsSubstring("0->1       outputs           6"));
  const auto report = nlohmann::json::parse(
    run_troupe("verify", csv, "--least-credits --json").output);
  REQUIRE(report.at("channels").size() == 4);
  for (const auto& channel : report.at("channels"))
    CHECK(channel.at("least_for_progress") == 1);
}
