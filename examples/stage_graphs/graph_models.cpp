#include "graph_models.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>

#include "troupe/engine/models/layers/layers.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;

namespace {

constexpr std::int64_t width = 16, rows = 4, length = 6;

at::Generator seeded(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

/// tanh(linear(all inputs, side by side)).
struct dense_layer final : stage_module {
  dense_layer(std::int64_t inputs, std::int64_t outputs, std::uint64_t seed)
    : linear(register_module("linear",
                             std::make_shared<linear_layer>(inputs, outputs))) {
    linear->fill(0.3, seeded(seed));
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {at::tanh(linear->forward(at::cat(inputs, -1)))};
  }
  std::shared_ptr<linear_layer> linear;
};

/// Adds attention of the first input to the second.
struct attention_layer final : stage_module {
  explicit attention_layer(std::uint64_t seed)
    : query(
      register_module("query", std::make_shared<linear_layer>(width, width))),
      output(register_module("output",
                             std::make_shared<linear_layer>(width, width))) {
    auto generator = seeded(seed);
    query->fill(0.3, generator);
    output->fill(0.3, generator);
  }
  tensor_list forward(const tensor_list& inputs) override {
    const auto& x = inputs[0];
    const auto& memory = inputs.back();
    const auto scores = query->forward(x).matmul(memory.transpose(-2, -1));
    const auto attended = at::softmax(scores / 4.0, -1).matmul(memory);
    return {x + output->forward(attended)};
  }
  std::shared_ptr<linear_layer> query, output;
};

layer dense(std::string name, std::int64_t inputs, std::int64_t outputs,
            std::uint64_t seed, std::vector<layer_output> reads = {}) {
  return {std::move(name),
          [=] { return std::make_shared<dense_layer>(inputs, outputs, seed); },
          std::move(reads)};
}

layer attention(std::string name, std::uint64_t seed,
                std::vector<layer_output> reads = {}) {
  return {std::move(name),
          [=] { return std::make_shared<attention_layer>(seed); },
          std::move(reads)};
}

/// The mean squared difference to a target; `name` is the loss's.
loss_function distance_to(std::size_t target, std::string name) {
  return [=](const tensor_list& outputs, const microbatch_data& data) {
    const auto& expected = data.targets.at(target);
    return std::vector<loss_term>{{name, at::mse_loss(outputs[0], expected),
                                   static_cast<double>(expected.numel())}};
  };
}

/// Random inputs and targets; microbatch i depends on i alone.
source_pointer random_tensors(std::size_t inputs, std::size_t targets) {
  return make_source([=](std::int64_t index) {
    auto generator = seeded(1000 + static_cast<std::uint64_t>(index));
    microbatch_data data;
    for (std::size_t i = 0; i < inputs; ++i)
      data.inputs.push_back(at::randn({rows, length, width}, generator));
    for (std::size_t i = 0; i < targets; ++i)
      data.targets.push_back(at::randn({rows, length, width}, generator));
    data.tokens = rows * length;
    return data;
  });
}

}  // namespace

graph_model encoder_decoder() {
  graph_model result{
    "encoder_decoder", {}, distance_to(0, "loss"), random_tensors(2, 1)};
  result.layers.push_back(attention("encoder.0", 1, {model_input(0)}));
  result.layers.push_back(attention("encoder.1", 2));
  result.layers.push_back(attention("encoder.2", 3));
  result.layers.push_back(
    dense("decoder.in", width, width, 4, {model_input(1)}));
  for (int i = 0; i < 4; ++i)
    result.layers.push_back(
      attention(fmt::format("decoder.{}", i), 5 + static_cast<std::uint64_t>(i),
                {{i == 0 ? "decoder.in" : fmt::format("decoder.{}", i - 1)},
                 {"encoder.2"}}));
  return result;
}

graph_model u_net() {
  graph_model result{"u_net", {}, distance_to(0, "loss"), random_tensors(1, 1)};
  result.layers = {dense("down.0", 16, 12, 1), dense("down.1", 12, 8, 2),
                   dense("down.2", 8, 4, 3), dense("bottom", 4, 4, 4)};
  result.layers.push_back(dense("up.2", 8, 8, 5, {{"bottom"}, {"down.2"}}));
  result.layers.push_back(dense("up.1", 16, 12, 6, {{"up.2"}, {"down.1"}}));
  result.layers.push_back(dense("up.0", 24, 16, 7, {{"up.1"}, {"down.0"}}));
  result.layers.push_back(dense("out", 16, 16, 8));
  return result;
}

graph_model two_towers() {
  graph_model result{
    "two_towers", {}, distance_to(1, "loss"), random_tensors(2, 2)};
  result.layers = {dense("left.0", 16, 16, 1, {model_input(0)}),
                   dense("left.1", 16, 16, 2)};
  result.layers.back().loss = distance_to(0, "loss");
  result.layers.push_back(dense("right.0", 16, 16, 3, {model_input(1)}));
  result.layers.push_back(dense("right.1", 16, 16, 4));
  result.layers.push_back(dense("join", 32, 16, 5, {{"left.1"}, {"right.1"}}));
  result.layers.push_back(dense("out", 16, 16, 6));
  return result;
}
