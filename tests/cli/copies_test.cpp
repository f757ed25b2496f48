// The memory of copies of states and of casts, as --dry-run tells it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("a dry run tells the memory of copies") {
  const tiny_training at;
  const auto run = [&](const std::string& launch, const std::string& more) {
    return run_program(program + " launch " + launch + " -- train --text "
                       + at.text + tiny + "--ranks 2 --dry-run " + more);
  };
  CHECK_THAT(run("--processes 2", "--heal --snapshot-every 4").output,
             ContainsSubstring("copies of states, every 4 steps: MiB of one "
                               "state by rank: "));
  CHECK(run("--processes 2", "").output.find("copies of states")
        == std::string::npos);
  const auto spare =
    run("--processes 2 --spares 1", "--heal --json 2>/dev/null").output;
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < spare.size(); begin = end + 1) {
    end = std::min(spare.find('\n', begin), spare.size());
    text += spare.substr(begin + 4, end - begin - 4);  // behind "[0] "
  }
  const auto copies = nlohmann::json::parse(text).at("copies");
  const auto ranks = copies["state_bytes_by_rank"];
  REQUIRE(ranks.size() == 2);
  const auto first = ranks[0].get<std::int64_t>(),
             second = ranks[1].get<std::int64_t>();
  CHECK(first > 0);
  // The spare keeps copies of the process before it.
  CHECK(copies["held_bytes_by_process"]
        == nlohmann::json{2 * first, 2 * (first + second), 2 * second});
}

TEST_CASE("a dry run tells the memory of casts") {
  const tiny_training at;
  const auto run = [&](const std::string& flags) {
    return at.train("--ranks 2 --dry-run " + flags).output;
  };
  CHECK(run("").find("casts of weights") == std::string::npos);
  CHECK_THAT(run("--autocast bf16"),
             ContainsSubstring("casts of weights, made once a step: at most "
                               "MiB by rank: 0."));
  const auto report =
    nlohmann::json::parse(run("--autocast bf16 --json 2>/dev/null"));
  for (int rank = 0; rank < 2; ++rank)
    CHECK(report["cast_bytes_by_rank"][rank]
          == 2 * report["stages"][rank]["parameters"].get<std::int64_t>());
}
