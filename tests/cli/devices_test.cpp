#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>

#include "../files.hpp"
#include "../run_program.hpp"
#include "../temporary_folder.hpp"
#include "troupe_paths.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// Trains three steps; returns the bytes of the parameters, or the error.
std::string trained(const std::string& flags) {
  const temporary_folder folder;
  const auto text = folder.write("text", std::string(4096, 'a') + "bcd");
  const auto saved = folder / "parameters";
  const auto run =
    run_program(TROUPE_PROGRAM
                " train --d-model 16 --layers 4 --heads 2 --seq 8 "
                "--microbatch-size 2 --microbatches 4 --steps 3 --text "
                + text + " --save-parameters " + saved + " " + flags);
  if (run.exit_code != 0)
    return std::to_string(run.exit_code) + ": " + run.output;
  return content(saved);
}

}  // namespace

TEST_CASE("a device that makes no sense is wrong usage") {
  for (const std::string device :
       {"gpu", "cuda:", "cuda:x", "cuda:0,", "cuda0"})
    CHECK_THAT(trained("--device " + device),
               ContainsSubstring("2: ") && ContainsSubstring("cuda:0,2"));
  CHECK_THAT(trained("--plain --device cuda:0,1"),
             ContainsSubstring("2: ") && ContainsSubstring("one device"));
}

TEST_CASE("a device that is missing is named, with the reason") {
  if (std::filesystem::exists("/dev/nvidia0"))
    SKIP("there is one");
  for (const std::string plain : {"", "--plain "})
    for (const std::string device : {"cuda", "cuda:0"})
      CHECK_THAT(trained(plain + "--device " + device),
                 ContainsSubstring("1: ")
                   && ContainsSubstring("--device " + device + ": "));
}

TEST_CASE("on a GPU the program trains, samples and saves, plain or not") {
  const std::string sample = "--sample 5 --clip 1 ";
  CHECK(trained("--device cpu " + sample).size() > 1000);
  if (!std::filesystem::exists("/dev/nvidia0"))
    SKIP("there is no GPU");
  for (const std::string plain : {"", "--plain "})
    CHECK(trained(plain + "--device cuda:0 " + sample).size() > 1000);
  const std::string ordered = "--device cuda:0 --deterministic ";
  CHECK(trained(ordered) == trained("--plain " + ordered));
}

TEST_CASE("a CPU gives the same bits without --deterministic") {
  CHECK(trained("--deterministic") == trained("--plain"));
}

TEST_CASE("the plain loop takes the CPU by name") {
  const auto plain = trained("--plain");
  CHECK(plain.size() > 1000);
  CHECK(trained("--plain --device cpu") == plain);
}

TEST_CASE("graphs want a GPU, and say so") {
  CHECK_THAT(trained("--cuda-graphs"), ContainsSubstring("2: ")
                                         && ContainsSubstring("--cuda-graphs")
                                         && ContainsSubstring("--device cuda"));
}

TEST_CASE("what overlaps changes no byte") {
  const auto all = trained("--data-parallel 2");
  CHECK(all.size() > 1000);
  for (const std::string kinds : {"none", "data", "reduce,transfers", "pairs"})
    CHECK(trained("--data-parallel 2 --overlap " + kinds) == all);
  CHECK_THAT(trained("--overlap everything"),
             ContainsSubstring("2: ") && ContainsSubstring("transfers"));
}

TEST_CASE("bf16 gives the plain loop's bytes, and others than fp32") {
  const auto plain = trained("--plain --autocast bf16");
  CHECK(plain.size() > 1000);
  CHECK(trained("--ranks 2 --autocast bf16") == plain);
  CHECK(trained("--ranks 2") != plain);
}
