// A resumed run reports what its flags change.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../files.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

struct extended_run {
  temporary_folder at;
  std::string text = write_text(at);

  program_result train(const std::string& flags) const {
    auto run = run_troupe(
      "train",
      fmt::format("--text {} --d-model 16 --layers 2 --heads 2 --seq 8 "
                  "--microbatch-size 2 --ranks 2 --endpoint none "
                  "--checkpoints {}",
                  text, at / "run"),
      flags);
    INFO(run.output);
    CHECK(run.exit_code == 0);
    return run;
  }
};

}  // namespace

TEST_CASE("a resumed run warns of a decay that it stretches, and can keep it") {
  for (const std::string plain : {"", "--plain "}) {
    const extended_run at;
    const auto flags = plain + "--lr 0.01 --decay cosine --final-lr 0 ";
    at.train(flags + "--steps 10 --checkpoint-every 5");
    const auto same = at.train(flags + "--steps 10 --resume auto");
    CHECK_THAT(same.output, !ContainsSubstring("learning rate of the next"));
    const auto stretched = at.train(flags + "--steps 20 --resume auto");
    CHECK_THAT(
      stretched.output,
      ContainsSubstring("the learning rate of the next update is 0.004218; by "
                        "the schedule of the checkpoint it would be 0: the "
                        "decay ends at step 20 and not at 10; --decay-steps 10 "
                        "keeps the schedule"));
  }
  const extended_run at;
  const std::string flags = "--lr 0.01 --decay linear --final-lr 0.5 ";
  at.train(flags + "--steps 10");
  const auto resumed =
    at.train(flags + "--steps 12 --decay-steps 10 --resume auto");
  CHECK_THAT(resumed.output, !ContainsSubstring("learning rate of the next")
                               && ContainsSubstring("lr 5e-3"));
  CHECK_THAT(resumed.output, ContainsSubstring("--decay-steps is 10; until the "
                                               "checkpoint it was 0"));
}

TEST_CASE("a resumed run reports each flag that differs in a line") {
  const extended_run at;
  at.train("--steps 3 --beta2 0.9 --microbatches 4");
  const auto run = at.train(
    "--steps 4 --clip 1 --eps 1e-5 --lr 0.01 --microbatches 2 --resume auto "
    "--schedule gpipe --threads 2");
  for (const auto* warning :
       {"--beta2 is not given; until the checkpoint it was 0.9\n",
        "--clip is 1; until the checkpoint it was 0\n",
        "--eps is 1e-05; until the checkpoint it was not given\n",
        "--microbatches is 2; until the checkpoint it was 4\n",
        "--schedule is 'gpipe'; until the checkpoint it was not given\n",
        "--threads is 2; until the checkpoint it was 1\n",
        "next update is 0.01; by the schedule of the checkpoint it would be "
        "0.0003; give the flags of that run to keep it"})
    CHECK_THAT(run.output, ContainsSubstring(warning));
  CHECK_THAT(run.output, !ContainsSubstring("--steps is"));
  const auto again = at.train(
    "--steps 5 --clip 1 --eps 1e-5 --lr 0.01 --microbatches 2 --resume auto "
    "--schedule gpipe --threads 2");
  CHECK_THAT(again.output, !ContainsSubstring("until the checkpoint"));
}
