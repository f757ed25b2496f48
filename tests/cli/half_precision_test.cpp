// fp16 and bf16 as flags of the program.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("fp16 has a dynamic loss scale unless a constant one is given") {
  const tiny_training at;
  const auto scale_is = [&](const std::string& flags, const std::string& text) {
    const auto run = at.train("--steps 1 --endpoint none " + flags);
    INFO(run.output);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring(text));
  };
  scale_is("--dtype fp16", "loss_scale 6.55e4");
  scale_is("--autocast fp16 --plain", "loss_scale 6.55e4");
  scale_is("--dtype fp16 --loss-scale 8", "loss_scale 8");
  scale_is("--dtype bf16", "grad_norm");
  scale_is("--dtype fp16 --schedule two_bw",
           "updates within a step, which a dynamic loss scale can't follow");
}

TEST_CASE("a run that skips updates in vain ends with an error") {
  const tiny_training at;
  const std::string plain = GENERATE("", " --plain");
  const auto run = at.train(
    "--endpoint none --dtype fp16 --optimizer sgd --lr 1e30 "
    "--max-skipped-updates 2 --loss-scale 2 --dynamic-loss-scale "
    "--steps 9"
    + plain);
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output,
             ContainsSubstring("2 updates in a row were skipped at the "
                               "smallest loss scale, 1: the parameter '"));
}

TEST_CASE("a constant loss scale that is too large is named as the reason") {
  const tiny_training at;
  const std::string plain = GENERATE("", " --plain");
  const auto run = at.train(
    "--endpoint none --dtype fp16 --loss-scale 1e30 --steps 3" + plain);
  INFO(run.output);
  CHECK(run.exit_code == 1);
  const auto advice = ContainsSubstring(
    "use a --loss-scale below 1e+30, or a dynamic one (--dynamic-loss-scale)");
  CHECK_THAT(run.output.substr(run.output.find("the loss was not finite")),
             advice);
  CHECK_THAT(run.output.substr(run.output.find("the trained parameters are")),
             advice);
}
