#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

const std::string groups =
  "--parameters 'tok.*,pos.*:lr*0.5,weight-decay=0' "
  "--parameters 'blocks.0.*:frozen' ";

}  // namespace

TEST_CASE("optimizers, groups and norms give the plain loop's bytes") {
  const tiny_training at;
  const auto trained = [&](const std::string& flags) {
    const auto path = at.folder / "saved";
    const auto run = at.train(flags + " --save-parameters " + path);
    INFO(flags << "\n" << run.output);
    CHECK(run.exit_code == 0);
    return content(path);
  };
  const auto usual = trained("--plain");
  for (const auto* flags :
       {"--optimizer muon --muon-scale original --clip 1 --clip-norm-type inf ",
        "--optimizer sgd --momentum 0.9 --nesterov --clip 1 --clip-norm-type 3 "
        "--schedule zb_h1 "}) {
    const auto plain = trained(groups + flags + "--plain");
    CHECK(plain != usual);
    CHECK(trained(groups + flags) == plain);
  }
}

TEST_CASE("groups of parameters may stand in a configuration file") {
  const tiny_training at;
  const auto path = at.folder.write(
    "c.toml", "parameters = ['tok.*:lr*0.5', 'blocks.0.*:frozen']\n");
  const auto run = at.train("--print-config --config " + path);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("parameters = ['tok.*:lr*0.5', "
                                           "'blocks.0.*:frozen']\n"));
}

TEST_CASE("groups that fit no parameter are refused before any work") {
  const tiny_training at;
  for (const auto* more : {" --dry-run", " --plain", ""}) {
    const auto run =
      at.train(std::string{"--parameters 'haed.*:frozen'"} + more);
    INFO(run.output);
    CHECK(run.exit_code == 2);
    CHECK_THAT(run.output,
               ContainsSubstring("no parameter's name matches 'haed.*'; did "
                                 "you mean head.weight"));
  }
  const auto run = at.train("--parameters 'head.*:lr=3'");
  CHECK(run.exit_code == 2);
  CHECK_THAT(run.output, ContainsSubstring("'lr=3' is not a setting"));
}

TEST_CASE("train warns of an optimizer's flags that another does not use") {
  const tiny_training at;
  const auto run = at.train(
    "--dry-run --optimizer adafactor --beta1 0.9 --eps 1e-5 --dampening 0.1 "
    "--nesterov "
    "--muon-scale original");
  CHECK(run.exit_code == 0);
  for (const auto* flag : {"--beta1 0.9", "--eps 1e-05", "--dampening 0.1",
                           "--nesterov", "--muon-scale"})
    CHECK_THAT(run.output, ContainsSubstring(
                             std::string{flag}
                             + " has no effect with --optimizer adafactor"));
}
