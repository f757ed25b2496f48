#include "troupe/engine/stage/module/slices.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE(
  "slices of a microbatch are its sequence, and differ by one at most") {
  microbatch_data data;
  data.inputs = {at::arange(14).reshape({2, 7})};
  data.targets = {data.inputs[0] + 1};
  data.arguments["mask"] = at::ones({2, 7});
  data.arguments["scale"] = at::ones({2});
  data.tokens = 14;
  tensor_list parts;
  std::int64_t tokens = 0;
  for (std::int32_t i = 0; i < 3; ++i) {
    const auto part = slice_of(data, i, 3);
    parts.push_back(part.inputs[0]);
    tokens += part.tokens;
    CHECK(part.inputs[0].size(1) == (i == 0 ? 3 : 2));
    CHECK(at::equal(part.targets[0], part.inputs[0] + 1));
    CHECK(part.arguments.at("mask").size(1) == part.inputs[0].size(1));
    CHECK(part.arguments.at("scale").size(0) == 2);
  }
  CHECK(at::equal(at::cat(parts, 1), data.inputs[0]));
  CHECK(tokens == data.tokens);
  CHECK(slice_of({}, 1, 3).inputs.empty());
  CHECK_THROWS_MATCHES(
    slice_of(data, 0, 8), error,
    MessageMatches(ContainsSubstring("8 slices of a sequence of 7 positions")));
  data = {};
  data.inputs = {at::ones({4})};
  CHECK_THROWS_MATCHES(
    slice_of(data, 0, 2), error,
    MessageMatches(ContainsSubstring("none has two dimensions")));
}

TEST_CASE(
  "the tokens of slices add up to the microbatch's, whatever they count") {
  microbatch_data data;
  data.inputs = {at::ones({2, 7})};
  for (const std::int64_t tokens :
       {std::int64_t{13}, std::int64_t{2}, std::int64_t{1} << 61}) {
    data.tokens = tokens;
    std::int64_t sum = 0;
    for (std::int32_t i = 0; i < 3; ++i) {
      const auto part = slice_of(data, i, 3).tokens;
      CHECK(part >= 0);
      sum += part;
    }
    CHECK(sum == tokens);
  }
}

TEST_CASE("a GPT in slices learns what it learns as a whole, within rounding") {
  const gpt_options size{
    .width = 16, .layers = 2, .heads = 2, .length = 9, .vocabulary = 32};
  const auto load = [](std::int64_t k) {
    const auto ids = (at::arange(2 * 10).reshape({2, 10}) * 7 + k) % 32;
    microbatch_data data;
    data.inputs = {ids.slice(1, 0, 9).contiguous()};
    data.targets = {ids.slice(1, 1).contiguous()};
    return data;
  };
  plain_options options;
  options.microbatches = 2;
  options.numerics.optimizer = sgd{.learning_rate = 0.1};
  for (const bool even : {true, false}) {
    options.slices = 1;
    plain_loop whole(gpt(size), options);
    options.slices = even ? 3 : 2;
    plain_loop sliced(gpt(size), options);
    for (int i = 0; i < 5; ++i) {
      const auto a = whole.step(load).loss, b = sliced.step(load).loss;
      CHECK(std::abs(a - b) < 1e-4);
      if (!even)
        break;  // slices have equal weights, whatever their lengths
    }
    const auto a = whole.parameters(), b = sliced.parameters();
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      most =
        std::max(most, (a[i].second - b[i].second).abs().max().item<double>());
    CHECK(most < (even ? 1e-5 : 1e-2));
  }
}

namespace {

/// Reads what earlier slices have kept, but only in some slices.
struct fickle_layer final : stage_module {
  explicit fickle_layer(std::int32_t in_slice) : reads_in(in_slice) {}
  bool runs_in_slices() const override { return reads_in >= 0; }
  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    const auto x = inputs.at(0) * weight;
    if (current_slice().index == reads_in)
      with_earlier_slices(x, 1);
    return {x};
  }
  std::int32_t reads_in;
  at::Tensor weight = register_parameter("weight", at::ones({1}));
};

void step_in_slices(std::int32_t reads_in) {
  plain_options options;
  options.slices = 2;
  options.numerics.optimizer = sgd{};
  options.numerics.loss = [](const tensor_list& outputs,
                             const microbatch_data&) {
    return std::vector<loss_term>{{"loss", outputs.at(0).sum()}};
  };
  const model layers{
    {"fickle", [=] { return std::make_shared<fickle_layer>(reads_in); }}};
  plain_loop loop(layers, options);
  loop.step([](std::int64_t) {
    microbatch_data data;
    data.inputs = {at::ones({2, 4})};
    return data;
  });
}

}  // namespace

TEST_CASE("layers that read earlier slices read them in each slice") {
  CHECK_THROWS_MATCHES(step_in_slices(0), error,
                       MessageMatches(ContainsSubstring(
                         "slice 1 of a microbatch reads the tensors of earlier "
                         "slices 0 times, but earlier slices did so 1 times")));
  CHECK_THROWS_MATCHES(step_in_slices(1), error,
                       MessageMatches(ContainsSubstring(
                         "slice 1 of a microbatch reads the tensors of earlier "
                         "slices 1 times, but earlier slices did so 0 times")));
  CHECK_THROWS_MATCHES(step_in_slices(-1), error,
                       MessageMatches(ContainsSubstring(
                         "layer 0 ('fickle') does not run in slices")));
}

TEST_CASE("a sequence is as long as the first tensor of two dimensions") {
  CHECK(sequence_length({}) == 0);
  CHECK(sequence_length({at::Tensor{}, at::ones({3})}) == 0);
  CHECK(sequence_length({at::ones({3}), at::ones({2, 5, 4})}) == 5);
}
