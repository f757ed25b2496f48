#include "troupe/engine/models/registry.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "usual_values.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const text_batch_options small{.rows = 2, .length = 8, .vocabulary = 32};

built_model built(const std::string& name) {
  const auto& entry = find_model(name);
  auto values = usual_values(entry);
  values["d-model"] = 16;
  values["heads"] = 2;
  values["layers"] = 4;
  return entry.build(values, small);
}

layer_sequence whole_model(const built_model& model) {
  const auto count = static_cast<std::int32_t>(model.layers.size());
  return {model.layers, {{0, count}}, 0};
}

}  // namespace

TEST_CASE("every registered model maps token rows to logits") {
  const auto ids = at::full({2, 8}, 5, at::kLong);
  for (const auto& entry : registered_models()) {
    INFO(entry.name);
    const auto model = built(entry.name);
    CHECK(model.blocks == layer_range{1, 5});
    auto module = whole_model(model);
    CHECK(module.forward({ids}).at(0).sizes() == at::IntArrayRef{2, 8, 32});
    double parameters = 0;
    for (const auto& parameter : module.parameters())
      parameters += static_cast<double>(parameter.numel());
    CHECK(model.parameters == parameters);
  }
}

TEST_CASE("the later blocks of a U-Net read their mirror images") {
  const auto layers = built("u_net").layers;
  CHECK(layers.at(3).reads.empty());
  REQUIRE(layers.at(4).reads.size() == 2);
  CHECK(layers.at(4).reads[0].layer == "blocks.2");
  CHECK(layers.at(4).reads[1].layer == "blocks.0");
}

TEST_CASE("the values of one option name are equal in all models") {
  std::map<std::string, option_value> usual;
  for (const auto& entry : registered_models())
    for (const auto& option : entry.options) {
      INFO(entry.name << " " << option.name);
      CHECK(usual.emplace(option.name, option.usual).first->second
            == option.usual);
    }
}

TEST_CASE("an unknown model is refused with the names of the known ones") {
  CHECK_THROWS_MATCHES(
    find_model("g\np"), error,
    Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring(
      "there is no model 'g\\x0Ap'; the models are gpt, u_net")));
  CHECK_THROWS_WITH(find_model("gptt"),
                    "there is no model 'gptt'; did you mean gpt?");
}
