#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <string_view>

#include "../temporary_folder.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

auto simulate(std::string_view flags, std::string_view more = {}) {
  return run_troupe("simulate", flags, more);
}

}  // namespace

TEST_CASE("simulate prints the figures as JSON") {
  const auto run = simulate(two_ranks, "--json");
  CHECK(run.exit_code == 0);
  const auto json = nlohmann::json::parse(run.output);
  CHECK(json["makespan"] == 9);
  CHECK(json["period"] == 9);
  CHECK(json["idle"].size() == 2);
  CHECK(json["in_flight"] == std::vector{2, 1});
  CHECK(json["critical_path"]
        == std::vector<std::string>{"0F0", "1F0", "1B0", "1F1", "1B1", "0B1"});
  CHECK(json["messages"] == 4);
  CHECK(json.size() == 6);
}

TEST_CASE("simulate tells what offloads save and cost") {
  const auto figures = [](const std::string& flags) {
    return nlohmann::json::parse(
      simulate("--schedule gpipe --ranks 1 --microbatches 8 --json "
               "--sizes kept=10 "
               + flags)
        .output);
  };
  CHECK(figures("")["peak_bytes"] == std::vector{80});
  CHECK_FALSE(figures("").contains("host_peak_bytes"));
  const auto with = figures("--offload-activations --costs offload=1,reload=1");
  CHECK(with["peak_bytes"] == std::vector{30});
  CHECK(with["host_peak_bytes"] == std::vector{70});
  CHECK(with["makespan"] == figures("")["makespan"]);
  CHECK(with["in_flight"] == std::vector{2});
  CHECK_THAT(
    simulate("--schedule gpipe --sizes kept=4e6", "--offload-activations")
      .output,
    ContainsSubstring("host MiB"));
}

TEST_CASE("simulate takes a CSV of either form, and costs") {
  for (const std::string form : {"compute", "comms"}) {
    const auto run =
      simulate(case_file(std::string("gpipe_p2_v1_m4.") + form + ".csv"),
               "--costs message=0.25 --json");
    CHECK(nlohmann::json::parse(run.output)["makespan"] == 15.5);
  }
}

TEST_CASE("simulate takes costs from a file") {
  const temporary_folder folder;
  const auto path = folder.write("costs", "f=10\nb=20 # measured\n");
  CHECK_THAT(simulate(two_ranks, fmt::format("--costs {}", path)).output,
             ContainsSubstring("makespan 90, period 90, idle 33.3 %"));
}

TEST_CASE("simulate warns of flags without effect") {
  const auto warns = [](const std::string& flags, const std::string& of) {
    const auto run = simulate(flags);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring("warning: " + of));
  };
  const auto file = case_file("gpipe_p2_v1_m4.compute.csv");
  warns(two_ranks + std::string{"--costs b=2,w=1,f.2=1,f=1"},
        "--costs: w=1, f.2=1 has no effect, as 1f1b has no such op");
  warns(two_ranks + std::string{"--breadth 2"},
        "--breadth 2 has no effect with --schedule 1f1b");
  warns(file + " --ranks 3", "--ranks has no effect with ");
  CHECK_THAT(simulate("--schedule depth_first --microbatches 2 --breadth 2",
                      "--costs f=1,b=1")
               .output,
             !ContainsSubstring("warning"));
}

TEST_CASE("simulate makes ranks slower and times vary") {
  CHECK_THAT(simulate(two_ranks).output, ContainsSubstring("makespan 9,"));
  CHECK_THAT(simulate(two_ranks, "--slow rank.1=2").output,
             ContainsSubstring("makespan 15,"));
  CHECK(simulate(two_ranks, "--jitter 0.3").output
        == simulate(two_ranks, "--jitter 0.3 --seed 1").output);
  CHECK(simulate(two_ranks, "--jitter 0.3").output
        != simulate(two_ranks, "--jitter 0.3 --seed 2").output);
  CHECK_THAT(simulate(two_ranks, "--slow rank.2=2").output,
             ContainsSubstring("rank 2: 1f1b has 2 ranks"));
  CHECK_THAT(simulate(two_ranks, "--slow f.1=2").output,
             ContainsSubstring("slow ranks 'f.1=2': the key is unknown"));
}

TEST_CASE("simulate runs steps, and ops that overtake") {
  const std::string_view zb_v =
    "--schedule zb_v --ranks 4 --stages-per-rank 2 --microbatches 8";
  CHECK_THAT(simulate(zb_v, "--steps 3").output,
             ContainsSubstring("\n3 steps: 73.5, one every 24\n"));
  const auto run = simulate(zb_v, "--steps 3 --barrier --json");
  const auto json = nlohmann::json::parse(run.output);
  CHECK(json["step_ends"] == std::vector{25.5, 51.0, 76.5});
  CHECK(json["total"] == 76.5);
  CHECK(json["step_period"] == 25.5);
  CHECK_THAT(simulate(zb_v, "--per-stage").output,
             ContainsSubstring("makespan 51,"));
  CHECK(simulate(zb_v, "--jitter 0.3 --order ready_first").output
        != simulate(zb_v, "--jitter 0.3").output);
  CHECK(simulate(zb_v, "--barrier").exit_code == 2);
  CHECK_THAT(simulate(zb_v, "--order random").output,
             ContainsSubstring("random not in {strict,ready_first,any_ready}"));
}

TEST_CASE("simulate refuses what it can't take") {
  CHECK(simulate("--schedule " + case_file("gpipe_p2_v1_m4.compute.csv"),
                 "--stages-per-rank 2")
          .exit_code
        == 2);
  CHECK(simulate("--schedule 2f2b").exit_code == 2);
  CHECK(simulate(two_ranks, "x.csv").exit_code == 2);
}

TEST_CASE("bad costs are wrong usage as a flag, and malformed in a file") {
  for (const std::string costs : {"g=1", "f=nan"}) {
    const auto flag = simulate(two_ranks, "--costs " + costs);
    CHECK(flag.exit_code == 2);
    CHECK_THAT(flag.output, ContainsSubstring("costs '" + costs + "': the "));
    const temporary_folder folder;
    const auto file =
      simulate(two_ranks, "--costs " + folder.write("costs", costs));
    CHECK(file.exit_code == 1);
    CHECK_THAT(file.output, ContainsSubstring("/costs: costs '" + costs));
  }
}
