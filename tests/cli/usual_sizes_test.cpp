// Stages per rank and slices that no flag of `train` gives.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("train gives a schedule its usual stages per rank") {
  const tiny_training at;  // 4 blocks
  const auto dry = [&](const std::string& flags) {
    return at.train("--dry-run " + flags).output;
  };
  for (const auto* name : {"interleaved_1f1b", "zb_v"})
    CHECK_THAT(dry("--ranks 2 --schedule " + std::string{name}),
               ContainsSubstring("\nstage 3 on rank "));
  CHECK_THAT(dry("--ranks 2"), !ContainsSubstring("stage 2 on rank "));
  const auto few = dry("--ranks 3 --schedule interleaved_1f1b");
  CHECK_THAT(few, ContainsSubstring("runs with one stage per rank: the layers "
                                    "can't be cut into 6 stages")
                    && !ContainsSubstring("stage 3 on rank "));
  CHECK_THAT(dry("--ranks 3 --schedule zb_v"),
             ContainsSubstring("can't be cut into 6 stages"));
  CHECK_THAT(dry("--ranks 2 --schedule interleaved_1f1b --split 3,3"),
             !ContainsSubstring("stage 2 on rank "));
}

TEST_CASE("train gives seq_1f1b its usual slices, with the plain loop's bits") {
  const tiny_training at;
  const auto a = at.folder / "a", b = at.folder / "b", c = at.folder / "c";
  const auto train = [&](const std::string& flags) {
    CHECK(at.train(flags).exit_code == 0);
  };
  train("--plain --slices 4 --save-parameters " + a);
  train("--ranks 2 --schedule seq_1f1b --save-parameters " + b);
  train("--plain --schedule seq_1f1b --save-parameters " + c);
  CHECK(content(a) == content(b));
  CHECK(content(a) == content(c));
  train("--ranks 2 --schedule seq_1f1b --seq 3");
}
