#include "troupe/cli/train/shared_cores.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::cli;
using namespace troupe::testing;

TEST_CASE("more ranks than cores are told, fewer are not") {
  CHECK(
    shared_cores_text(16, 1, 2)
    == "16 ranks share 2 cores; the bubble mostly shows waiting for a core");
  CHECK(shared_cores_text(2, 2, 2)
        == "2 ranks of 2 threads share 2 cores; the bubble mostly shows waiting "
           "for a core");
  CHECK_THAT(shared_cores_text(2, 1, 1.5), ContainsSubstring("1.5 cores"));
  CHECK(shared_cores_text(2, 1, 2).empty());
  CHECK(shared_cores_text(1, 8, 2).empty());
}

TEST_CASE("control groups limit the usable cores") {
  CHECK(usable_cores({}) >= 1);
  CHECK(usable_cores({.cpus = 0.5}) == 0.5);
}

TEST_CASE("train says once that its ranks share cores") {
  const tiny_training at;
  const auto run = run_program("taskset -c 0 " + at.command("--ranks 2"));
  CAPTURE(run.output);
  CHECK(run.exit_code == 0);
  const std::string text = "2 ranks share 1 core;";
  const auto first = run.output.find(text);
  CHECK(first < run.output.find("step 1/3"));
  CHECK(run.output.find(text, first + 1) == std::string::npos);
  const auto plain =
    run_program("taskset -c 0 " + at.command("--plain --steps 1"));
  CHECK_THAT(plain.output, !ContainsSubstring("share"));
}
