// Runs whose text has no labels, or only few.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <fstream>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// Trains with a mask of one byte per byte of the text: 1 in the given part.
struct masked_training : tiny_training {
  std::string mask = folder / "mask";
  std::string log = folder / "log.json";

  program_result train_where(double begin, double end,
                             const std::string& flags) const {
    const auto size = double(content(text).size());
    std::ofstream out(mask, std::ios::binary);
    for (double i = 0; i < size; ++i)
      out.put(i >= begin * size && i < end * size ? 1 : 0);
    out.close();
    return train("--endpoint none --loss-mask " + mask + " --log-json " + log
                 + " " + flags);
  }
  std::vector<nlohmann::json> lines(const std::string& phase) const {
    std::ifstream in(log);
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(in, line);)
      if (auto each = nlohmann::json::parse(line);
          each.contains("loss") && each.at("phase") == phase)
        all.push_back(std::move(each));
    return all;
  }
};

}  // namespace

TEST_CASE("validation takes rows that count, or there is none") {
  const masked_training at;
  const std::string plain = GENERATE("", "--plain ");
  const auto flags =
    plain + "--validation-fraction 0.5 --validation-microbatches 1 --steps 1";
  const auto late = at.train_where(0.3, 0.8, flags);
  INFO(late.output);
  CHECK(late.exit_code == 0);
  const auto whole = at.lines("validation").at(0).at("loss").get<double>();
  CHECK(whole > 1);
  // Only its first tenth has labels.
  const auto first = at.train_where(0.45, 0.55, flags);
  INFO(first.output);
  CHECK(at.lines("validation").at(0).at("loss").get<double>() > 1);
  CHECK(at.lines("validation").at(0).at("tokens") == 2 * 8);
  const auto none = at.train_where(0, 0.4, flags);
  INFO(none.output);
  CHECK(none.exit_code == 0);
  CHECK_THAT(none.output,
             ContainsSubstring("no token of the part that is held out for "
                               "validation is to be predicted"));
  CHECK(at.lines("validation").empty());
}

TEST_CASE("a mask that leaves nothing to train on is refused") {
  const masked_training at;
  const auto run =
    at.train_where(0.6, 1, "--validation-fraction 0.5 --steps 1");
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("no token to train on is to be "
                                           "predicted"));
}

TEST_CASE("a step in which nothing counts says so") {
  const masked_training at;
  const std::string plain = GENERATE("", "--plain ");
  const auto csv = at.folder / "m.csv";
  // One row in a thousand has a label, so no row of the step has one.
  const auto run =
    at.train_where(0.2, 0.2005,
                   plain + "--steps 2 --microbatches 1 --microbatch-size 1"
                     + (plain.empty() ? " --sink csv:" + csv : ""));
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("loss - (no counted tokens)"));
  for (const auto& line : at.lines("training")) {
    CHECK(line.at("loss").is_null());
    CHECK(line.at("losses").at("loss").is_null());
  }
  if (plain.empty())
    CHECK_THAT(content(csv), !ContainsSubstring("train/loss"));
}
