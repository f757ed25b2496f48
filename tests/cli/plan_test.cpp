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
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using namespace troupe::testing;

namespace {

auto run_plan(std::string_view flags, std::string_view more = {}) {
  return run_troupe("plan", flags, more);
}

}  // namespace

TEST_CASE("plan shows a table") {
  const auto run = run_plan(two_ranks);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output,
             ContainsSubstring("1f1b: 2 ranks, 2 stages, 2 microbatches, 20 "
                               "ops, 4 messages\nmakespan 9 ")
               && ContainsSubstring("rank 1  ···F0─B0════F1─B1════"));
  CHECK_THAT(run_plan(two_ranks, "--lower").output,
             ContainsSubstring("rank 1   1RECV_F0 1F0 1RECV_F1 1B0 "));
}

TEST_CASE("plan takes the schedule's name or file as its argument") {
  const temporary_folder folder;
  const auto file = folder / "x.csv";
  CHECK(run_plan("gpipe --ranks 2 --microbatches 2", "-o " + file).exit_code
        == 0);
  CHECK_THAT(run_plan(file).output, ContainsSubstring("2 ranks, 2 stages"));
  CHECK(run_plan("gpipe --schedule 1f1b").exit_code == 2);
}

TEST_CASE("plan draws in ASCII where the locale has nothing else") {
  const auto drawn = [](const std::string& locale) {
    return run_program(locale + " " TROUPE_PROGRAM " plan " + two_ranks).output;
  };
  CHECK_THAT(drawn("LC_ALL=C"), ContainsSubstring("rank 1  ...F0-B0===="));
  CHECK_THAT(drawn("LC_ALL= LC_CTYPE= LANG=C"),
             ContainsSubstring("rank 1  ...F0-B0===="));
  CHECK_THAT(drawn("LC_ALL=en_US.utf8"), ContainsSubstring("rank 1  ···F0─"));
  CHECK_THAT(drawn("LC_ALL= LC_CTYPE= LANG="),
             ContainsSubstring("rank 1  ···F0─"));
}

TEST_CASE("plan says what its labels mean, and what a narrow one leaves out") {
  CHECK_THAT(run_plan("--schedule zb_v --ranks 2 --microbatches 2").output,
             ContainsSubstring("\n2F0 is F of microbatch 0 on stage 2\nI and W "
                               "are the halves of a backward: for inputs"));
  CHECK_THAT(run_plan("--schedule dualpipe --ranks 2 --microbatches 4").output,
             ContainsSubstring("\nlower case is copy 1 of a stage\n"));
  const std::string_view narrow = "--ranks 2 --microbatches 16 --width";
  CHECK_THAT(
    run_plan(narrow, "40").output,
    ContainsSubstring("some ops are left out; a width of 61 shows all"));
  CHECK_THAT(run_plan(narrow, "61").output, !ContainsSubstring("left out"));
}

TEST_CASE("plan takes slices, and the width of its table") {
  const auto run = run_plan("--schedule seq_1f1b --ranks 2 --microbatches 1",
                            "--slices 2 --width 30");
  CHECK_THAT(run.output, ContainsSubstring("rank 0  F─F─······B0.1B0.0\n"));
  const auto sliced =
    run_plan("--ranks 2", "--slices 2 --format schedule").output;
  CHECK_THAT(sliced, ContainsSubstring("seq_1f1b"));
  CHECK(
    run_plan("--ranks 2 --schedule seq_1f1b", "--slices 2 --format schedule")
      .output
    == sliced);
  CHECK_THAT(run_plan(two_ranks, "--slices 2").output,
             ContainsSubstring("1f1b: slices must be 1, not 2: the nearest "
                               "legal value is 1 (--slices)"));
}

TEST_CASE("plan writes CSV, compute only and lowered") {
  CHECK(run_plan(two_ranks, "--format csv").output
        == "0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n");
  CHECK(run_plan(two_ranks, "--format csv --lower").output
        == "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
           "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\r\n");
}

TEST_CASE("plan compares schedules by equal work, without flags of sizes") {
  const auto head = [](std::string_view schedule) {
    return run_plan("--ranks 4 --microbatches 8 --schedule", schedule).output;
  };
  CHECK_THAT(head("1f1b"),
             ContainsSubstring("makespan 33 (forward 1, backward 2, messages"));
  CHECK_THAT(head("zb_v"),
             ContainsSubstring("4 ranks, 8 stages,")
               && ContainsSubstring("makespan 25.5 (forward 1, backward 2 of "
                                    "a rank's layers, messages free)"));
  CHECK_THAT(head("zb_v --per-stage"),
             ContainsSubstring("makespan 51 (forward 1, backward 2 per stage"));
  for (const auto* schedule : {"hanayo", "interleaved_1f1b"})
    CHECK_THAT(head(schedule), ContainsSubstring("8 stages, "));
  CHECK_THAT(head("seq_1f1b"), ContainsSubstring("makespan 26.25 "));
  CHECK_THAT(head("zb_v --stages-per-rank 1"),
             ContainsSubstring("nearest legal value is 2 (--stages-per-rank)"));
}

TEST_CASE("plan warns of flags that a format drops") {
  for (const auto* flags : {"csv", "csv --lower", "cpp", "schedule"}) {
    INFO(flags);
    const std::string_view all = flags;
    const auto format = all.substr(0, all.find(' '));
    const auto run =
      run_plan(two_ranks, fmt::format("--global-norm --format {}", flags));
    CHECK(run.exit_code == 0);
    CHECK_THAT(
      run.output,
      ContainsSubstring(fmt::format(
        "--global-norm has no effect with --format {}, which holds", format)));
  }
  CHECK_THAT(run_plan(two_ranks, "--sharded --format csv").output,
             ContainsSubstring("--sharded has no effect with --format csv"));
  for (const auto* flags :
       {"--global-norm --format plan", "--sharded --format csv --lower"})
    CHECK_THAT(run_plan(two_ranks, flags).output,
               !ContainsSubstring("has no effect"));
}

TEST_CASE("plan writes JSON and traces that parse, and an SVG file") {
  const temporary_folder folder;
  const auto json =
    nlohmann::json::parse(run_plan(two_ranks, "--format json").output);
  CHECK(json["ranks"][0][0]["op"] == "0F0");
  CHECK(json["channels"].size() == 2);
  CHECK(nlohmann::json::parse(run_plan(two_ranks, "--json").output) == json);
  const auto trace =
    nlohmann::json::parse(run_plan(two_ranks, "--format trace").output);
  CHECK(trace["traceEvents"].is_array());
  const auto path = folder / "plan.svg";
  CHECK(run_plan(two_ranks, fmt::format("-o {}", path)).exit_code == 0);
  CHECK_THAT(troupe::read_file(path),
             EndsWith("</svg>\n") && ContainsSubstring("<style>@media"));
  CHECK_THAT(
    run_plan(two_ranks, "--format svg --theme dark").output,
    ContainsSubstring("fill=\"#12181f\"/>") && !ContainsSubstring("<style>"));
}

TEST_CASE("plan's file names its format, unless a flag does") {
  const temporary_folder folder;
  for (const auto* format : {"csv", "json", "svg", "cpp", "schedule", "plan"}) {
    CAPTURE(format);
    const auto path = folder / (std::string{"x."} + format);
    run_plan(two_ranks, "-o " + path);
    CHECK(troupe::read_file(path)
          == run_plan(two_ranks, std::string{"--format "} + format).output);
  }
  const auto path = folder / "y.csv";
  run_plan(two_ranks, "--format plan -o " + path);
  CHECK_THAT(troupe::read_file(path), StartsWith("troupe plan 1"));
}

TEST_CASE("plan shards stages as PyTorch's pipelining does") {
  CHECK(run_plan("--schedule gpipe --ranks 2 --microbatches 1",
             "--sharded --lower --format csv")
          .output
        == "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\r\n"
           "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD\r\n");
}

TEST_CASE("plan shows activations that are offloaded") {
  const auto csv = [](const char* how) {
    return run_plan("--schedule gpipe --ranks 1 --microbatches 4",
                    fmt::format("--lower --format csv {}", how))
      .output;
  };
  CHECK(csv("--offload-activations")
        == "0F0,0OFFLOAD0,0F1,0OFFLOAD1,0F2,0OFFLOAD2,0RELOAD0,0F3,0OFFLOAD3,"
           "0RELOAD1,0B0,0RELOAD2,0B1,0RELOAD3,0B2,0B3\r\n");
  CHECK(csv("--offload-activations 0.25 --offload-ahead 2 "
            "--offload-least-stay 3")
        == "0F0,0F1,0F2,0F3,0OFFLOAD3,0B0,0RELOAD3,0B1,0B2,0B3\r\n");
  CHECK(csv("--offload-activations stage.0=0") == csv(""));
  CHECK_THAT(csv("--offload-ahead 2"),
             ContainsSubstring("have no effect without --offload-activations"));
}

TEST_CASE("plan takes a file as its schedule") {
  const temporary_folder folder;
  const auto path = folder.write("own.csv", "0F0,0B0\n1F0,1B0\n");
  CHECK(run_plan("--format csv --schedule", path).output
        == "0F0,0B0\r\n1F0,1B0\r\n");
  const auto run = run_plan("--ranks 3 --schedule", path);
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring("--ranks 3: but"));
}

TEST_CASE("plan refuses wrong usage with exit code 2") {
  for (const auto flags :
       {"--schedule 2f2b", "--schedule gpipe --stages-per-rank 2",
        "--schedule gpipe --ranks 0", "--schedule gpipe --format png",
        "--schedule gpipe --theme pink", "--json --format svg",
        "--schedule gpipe --rank 2", "--schedule gpipe --ranks 5000000",
        "--schedule gpipe --ranks 65536 --microbatches 1048576",
        "--schedule gpipe --ranks two", "--offload-activations 2",
        "--offload-activations stage.9=1", "--offload-activations half",
        "--offload-activations --offload-ahead 0"}) {
    INFO(flags);
    CHECK(run_plan(flags).exit_code == 2);
  }
}

TEST_CASE("plan leaves no half-written file") {
  const auto run = run_plan(two_ranks, "-o /absent/plan.svg");
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("/absent/plan.svg: can't be"));
  const auto full = run_plan(two_ranks, "-o /dev/full");
  CHECK(full.exit_code == 1);
  CHECK_THAT(full.output, ContainsSubstring("No space left on device"));
}

TEST_CASE("each command's help ends in an example") {
  for (const auto name : {"plan", "verify", "simulate"}) {
    const auto run = run_troupe(name, "--help-all");
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring("Example:\n  troupe "));
  }
}
