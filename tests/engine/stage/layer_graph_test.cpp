#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Returns its inputs' sum, and each input doubled.
struct sum_layer final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    tensor_list outputs{inputs.at(0)};
    for (std::size_t i = 1; i < inputs.size(); ++i)
      outputs[0] = outputs[0] + inputs[i];
    for (const auto& each : inputs)
      outputs.push_back(each * 2);
    return outputs;
  }
};

layer sum(std::string name, std::vector<layer_output> reads = {}) {
  return {std::move(name), [] { return std::make_shared<sum_layer>(); },
          std::move(reads)};
}

void refuses(const model& layers, const std::string& why) {
  CHECK_THROWS_MATCHES(require_legal(layers), error,
                       MessageMatches(ContainsSubstring(why)));
}

/// a -> b -> c, and c reads a's outputs 0 and 1 too.
model skipping() {
  return {sum("a"), sum("b"), sum("c", {{"b"}, {"a"}, {"a", 1}}), sum("d")};
}

}  // namespace

TEST_CASE("reads that no layer gives, later ones and cycles are refused") {
  CHECK_NOTHROW(require_legal(skipping()));
  refuses({sum("a"), sum("b", {{"z"}})},
          "layer 1 ('b') reads 'z', and no layer has that name");
  refuses({sum("a", {{"b"}}), sum("b", {model_input()})},
          "layer 0 ('a') reads layer 1 ('b'), which runs after it");
  refuses({sum("a", {{"b"}}), sum("b")},
          "in a cycle: layer 0 ('a'), which reads layer 1 ('b'), which reads "
          "layer 0 ('a')");
  refuses({sum("a", {{"a"}})}, "layer 0 ('a') reads itself");
  refuses({}, "the model has no layer");
  refuses({sum("a"), sum("b", {{"a", -1}})}, "outputs count from 0");
}

TEST_CASE("stages read the stages of the layers that theirs read") {
  const auto layers = skipping();
  const stage_split each{{0, 1}, {1, 2}, {2, 3}, {3, 4}};
  CHECK(to_text(graph_of(layers, each)) == "0>1 0>2 1>2 2>3");
  CHECK(to_text(graph_of(layers, {{0, 2}, {2, 4}})) == "0>1");
  const auto last = interface_of(layers, {{0, 2}, {2, 4}}, 1);
  REQUIRE(last.inputs.size() == 1);
  // b's first output is read once, and two of a's: nothing is sent twice.
  using tensors = std::vector<layer_read>;
  CHECK((last.inputs[0].tensors == tensors{{0, 0}, {0, 1}, {1, 0}}));
  CHECK(last.outputs.empty());
}

TEST_CASE("a tensor that two layers of a stage read travels once") {
  const model layers{sum("a"), sum("b", {{"a"}}), sum("c", {{"b"}, {"a"}})};
  const auto between = interface_of(layers, {{0, 1}, {1, 3}}, 0).outputs.at(0);
  CHECK((between.tensors == std::vector<layer_read>{{0, 0}}));
  REQUIRE(between.uses.size() == 2);  // each has a gradient of its own
  CHECK(between.uses[0].reader == 1);
  CHECK(between.uses[1].reader == 2);
  const model whole{sum("a"), sum("b"), sum("c", {{"b"}, {"a"}})};
  const auto all = interface_of(whole, {{0, 1}, {1, 3}}, 0).outputs.at(0);
  CHECK((all.tensors == std::vector<layer_read>{{0, layer_read::all}}));
  CHECK(all.uses.size() == 2);
}

TEST_CASE("the stages of a split model give the whole model's outputs") {
  const auto layers = skipping();
  const auto x = at::ones({2});
  const auto expected = layer_sequence(layers, {0, 4}).forward({x});
  for (const auto& split :
       std::vector<stage_split>{{{0, 1}, {1, 2}, {2, 3}, {3, 4}},
                                {{0, 2}, {2, 4}},
                                {{0, 1}, {1, 4}}}) {
    const auto graph = graph_of(layers, split);
    std::vector<tensor_list> edges(graph.edges().size());
    tensor_list outputs;
    for (std::int32_t s = 0; s < graph.stages(); ++s) {
      layer_sequence stage(layers, split, s);
      std::vector<tensor_list> inputs;
      std::size_t crossing = 0;
      for (const auto& [from, edge] : graph.inputs(s, false)) {
        const auto& input = stage.interface().inputs.at(crossing++);
        CHECK(input.stage == from);
        for (auto& use :
             stage.by_use(input, edges[static_cast<std::size_t>(edge)]))
          inputs.push_back(std::move(use));
      }
      microbatch_data data;
      data.inputs = {x};
      auto result = stage.run(inputs, data);
      std::size_t next = 0;
      for (const auto& [to, edge] : graph.outputs(s, false))
        edges[static_cast<std::size_t>(edge)] = result.sent.at(next++);
      outputs = result.outputs;
    }
    REQUIRE(outputs.size() == expected.size());
    for (std::size_t i = 0; i < outputs.size(); ++i)
      CHECK(at::equal(outputs[i], expected[i]));
  }
}

TEST_CASE("an output that is missing is named, with its reader") {
  layer_sequence both({sum("a"), sum("b", {{"a", 5}})}, {0, 2});
  CHECK_THROWS_MATCHES(
    both.forward({at::ones({2})}), error,
    MessageMatches(ContainsSubstring(
      "layer 1 ('b') reads tensor 5 of layer 0 ('a')'s outputs, of 2")));
  layer_sequence second({sum("a"), sum("b", {{"a", 5}})}, {1, 2});
  CHECK_THROWS_AS(second.forward({}), error);
}
