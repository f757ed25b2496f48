// How long a run trains, and how its learning rate and weights decay.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// 816 bytes to train on: 101 rows of 8 tokens, and one more token.
struct short_text {
  temporary_folder folder;
  std::string text = folder.write("text", std::string(816, 'a'));

  program_result train(const std::string& flags) const {
    return run_program(program
                       + " train --endpoint none --validation-fraction 0 "
                         "--d-model 16 --layers 4 --heads 2 --seq 8 "
                         "--microbatch-size 2 --microbatches 4 --text "
                       + text + " " + flags);
  }
  void refused(const std::string& flags, const std::string& why) const {
    const auto run = train(flags);
    INFO(flags << run.output);
    CHECK(run.exit_code != 0);
    CHECK_THAT(run.output, ContainsSubstring(why));
  }
};

}  // namespace

TEST_CASE("a run trains for epochs") {
  const short_text at;
  // Shuffled epochs lose one row to their offsets, so 100 rows remain.
  for (const std::string more : {"", "--plain "}) {
    const auto run = at.train(more + "--epochs 2");
    INFO(run.output);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output,
               ContainsSubstring("--epochs 2: 26 steps of 8 rows, of 101 rows")
                 || ContainsSubstring("--epochs 2: 25 steps of 8 rows, of 100 "
                                      "rows"));
    CHECK_THAT(run.output, ContainsSubstring("step 25/2"));
  }
  const auto halved = at.train("--epochs 1 --ranks 2 --data-parallel 2");
  INFO(halved.output);
  CHECK_THAT(halved.output, ContainsSubstring(" 7 steps of 16 rows"));
  at.refused("--epochs 1 --steps 3", "--steps");
  at.refused("--epochs 1 --text " + at.text + " --mix 1,1",
             "--epochs: the texts of a --mix");
}

TEST_CASE("learning rates fall to a rate or a part of the first") {
  const short_text at;
  const auto ends_with = [&](const std::string& flags,
                             const std::string& rate) {
    const auto run = at.train("--steps 20 --lr 0.01 " + flags);
    INFO(flags << run.output);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring("step 18/20")
                             && ContainsSubstring("lr " + rate + " "));
  };
  ends_with("--decay linear --min-lr 10%", "1e-3");
  ends_with("--decay cosine --min-lr 2e-3", "2e-3");
  ends_with("--decay wsd --min-lr 0", "5e-3");  // between two steps
  ends_with("--decay wsd-sqrt --cooldown 4 --min-lr 0", "5e-3");
  for (const auto* wrong : {"0.02", "101%", "-1", "x", "%"})
    at.refused(std::string("--decay linear --lr 0.01 --min-lr ") + wrong,
               "give a rate from 0 to --lr (0.01)");
  at.refused("--decay linear --min-lr 0 --final-lr 0", "--final-lr");
  for (const auto& [flags, why] :
       {std::pair("--min-lr 10%", "--min-lr has no effect without --decay"),
        std::pair("--decay cosine --cooldown 3",
                  "--cooldown has no effect without --decay wsd")})
    CHECK_THAT(at.train(std::string("--dry-run ") + flags).output,
               ContainsSubstring(why));
}

TEST_CASE("matrices alone decay, or all parameters") {
  const short_text at;
  const auto trained = [&](const std::string& flags) {
    const auto saved = at.folder / "saved";
    const auto run =
      at.train("--steps 3 --weight-decay 0.5 --ranks 2 --save-parameters "
               + saved + " " + flags);
    INFO(run.output);
    CHECK(run.exit_code == 0);
    return content(saved);
  };
  const auto matrices = trained("--decay-of matrices");
  CHECK(trained("--decay-of matrices --plain") == matrices);
  CHECK(trained("--decay-of matrices --data-parallel 2 --shard all")
        == trained("--decay-of matrices --data-parallel 2"));
  CHECK(trained("--parameters '*.bias,ln_f.*,blocks.*.ln*:weight-decay=0'")
        == matrices);
  CHECK(trained("") != matrices);
}

TEST_CASE("a plain loop trains a model of one block") {
  const short_text at;
  const auto run = at.train("--plain --layers 1 --steps 2 --split even");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  at.refused("--layers 1 --steps 2", "1 block can't be cut into 2 stages");
}
