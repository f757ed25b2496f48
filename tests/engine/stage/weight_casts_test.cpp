#include "troupe/engine/stage/parameters/weight_casts.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <catch2/catch_test_macros.hpp>

#include "driven_stage.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;
using troupe::testing::driven_stage;

namespace {

/// A stage of one block between the embeddings and the head.
struct stage_of_block {
  explicit stage_of_block(std::optional<shard_place> shards = {}) {
    const auto layers =
      gpt({.width = 16, .layers = 1, .heads = 2, .length = 4});
    module = std::make_shared<layer_sequence>(layers, layer_range{1, 2});
    options.index = 1;
    options.numerics.autocast = at::kBFloat16;
    options.shards = shards;
  }
  stage make() { return make_module_stage(module, options); }

  std::shared_ptr<layer_sequence> module;
  module_stage_options options;
};

/// The elements of the weights and biases of linear layers.
constexpr std::int64_t cast_elements =
  16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 * 64 + 64 + 16;

}  // namespace

TEST_CASE("a parameter is cast once until it changes") {
  const at::NoGradGuard no_grad;
  const auto weight = at::randn({3, 4});
  weight_casts casts;
  const auto first = casts.of(weight, at::kBFloat16);
  CHECK(first.equal(weight.to(at::kBFloat16)));
  CHECK(casts.of(weight, at::kBFloat16).is_same(first));
  CHECK(casts.bytes() == 24);
  // Of its own dtype it is itself; another dtype takes the cast's place.
  CHECK(casts.of(weight, at::kFloat).is_same(weight));
  CHECK(casts.of(weight, at::kHalf).equal(weight.to(at::kHalf)));
  CHECK(casts.bytes() == 24);
  // In place, also by another handle, and with other memory.
  weight.add_(1);
  CHECK(casts.of(weight, at::kBFloat16).equal(weight.to(at::kBFloat16)));
  weight.detach().mul_(3);
  CHECK(casts.of(weight, at::kBFloat16).equal(weight.to(at::kBFloat16)));
  const auto other = at::randn({3, 4});
  const auto before = weight.detach();
  weight.set_data(other);
  CHECK(casts.of(weight, at::kBFloat16).equal(other.to(at::kBFloat16)));
  weight.set_data(before);
  CHECK(casts.of(weight, at::kBFloat16).equal(before.to(at::kBFloat16)));
  casts.clear();
  CHECK(casts.bytes() == 0);
}

TEST_CASE("a cast of memory that was freed is not taken for another's") {
  const at::NoGradGuard no_grad;
  const auto weight = at::ones({64});
  weight_casts casts;
  for (int i = 0; i < 20; ++i) {  // the allocator gives the same memory again
    weight.set_data(at::ones({64}) * i);
    CHECK(casts.of(weight, at::kBFloat16)[0].item<float>() == i);
  }
}

TEST_CASE("all microbatches of a step share the casts of a stage's weights") {
  stage_of_block own;
  const auto made = own.make();
  const auto compute = std::dynamic_pointer_cast<module_compute>(made.compute);
  REQUIRE(compute->casts());
  driven_stage driven(*compute);
  compute->begin_step({});
  made.parameters->begin_step({});
  const auto x = at::randn({2, 4, 16});
  driven.forward({0, 0}, {{x}});
  CHECK(compute->casts()->bytes() == 2 * cast_elements);
  const auto weight = own.module->parameters_by_name().at(2).second;
  REQUIRE(weight.sizes() == at::IntArrayRef{48, 16});
  const auto cast = compute->casts()->of(weight, at::kBFloat16);
  driven.forward({1, 0}, {{x}});
  driven.backward(op_kind::backward, {0, 0}, {{x}});
  driven.backward(op_kind::backward, {1, 0}, {{x}});
  CHECK(compute->casts()->of(weight, at::kBFloat16).is_same(cast));
  CHECK(compute->casts()->bytes() == 2 * cast_elements);
  compute->begin_step({});
  CHECK(compute->casts()->bytes() == 0);
}

TEST_CASE("a release of sharded parameters frees their casts") {
  stage_of_block own(shard_place{.shard = 0, .shards = 1});
  const auto made = own.make();
  const auto compute = std::dynamic_pointer_cast<module_compute>(made.compute);
  const auto shards =
    std::dynamic_pointer_cast<sharded_parameters>(made.parameters);
  const auto gather = [&] {
    const auto work = shards->begin_gather();
    for (std::size_t i = 0; i < work.rows.size(); ++i)
      work.rows[i]
        .detach()
        .narrow(0, 0, work.shards[i].numel())
        .copy_(work.shards[i]);
  };
  compute->begin_step({});
  gather();
  driven_stage driven(*compute);
  const auto x = at::randn({2, 4, 16});
  const auto y = driven.forward({0, 0}, {{x}}).at(0).at(0);
  CHECK(compute->casts()->bytes() == 2 * cast_elements);
  shards->release();
  CHECK(compute->casts()->bytes() == 0);
  // Values that a gather brings are cast anew.
  for (auto& shard : shards->own_shards())
    shard.zero_();
  gather();
  driven.backward(op_kind::backward, {0, 0}, {{x}});
  CHECK_FALSE(driven.forward({1, 0}, {{x}}).at(0).at(0).equal(y));
}

TEST_CASE("without autocast there are no casts") {
  stage_of_block own;
  own.options.numerics.autocast.reset();
  const auto made = own.make();
  CHECK_FALSE(std::dynamic_pointer_cast<module_compute>(made.compute)->casts());
}
