// One member's shard of a stage's parameters: padding, states and refusals.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "../../says.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/parameters/sharded_parameters.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

parameter_list ten_elements() {
  return {{"a", at::arange(1, 8, at::kFloat).requires_grad_(true)},
          {"b", at::ones({3}).requires_grad_(true)}};
}

sharded_parameters member(const parameter_list& trained, shard_place place,
                          const parameter_list& frozen = {}) {
  numerics options;
  options.optimizer = adamw{.weight_decay = 0.1};
  return {trained, frozen, {}, options, place, nullptr, [] {}};
}

/// A step whose reduced gradients are ones.
void step_of_ones(sharded_parameters& member) {
  step_settings settings;
  settings.learning_rate = 0.1;
  member.begin_step(settings);
  tensor_list gradients;
  for (const auto& part : member.parts())
    if (!member.parameters()
           .empty())  // otherwise the shard is of frozen parameters
      gradients.push_back(at::ones({part.value.numel()}));
  member.put_gradients(std::move(gradients), {});
  member.update(1);
}

}  // namespace

TEST_CASE("padding stays zero through updates, with weight decay too") {
  const bool releases = GENERATE(false, true);
  for (const std::int32_t shard : {0, 1, 3}) {
    CAPTURE(shard, releases);
    auto own = member(ten_elements(),
                      {.shard = shard, .shards = 4, .releases = releases});
    for (int i = 0; i < 3; ++i)
      step_of_ones(own);
    const auto row = own.own_shards().at(0);
    auto padding = row.clone();
    for (const auto& piece : own.layouts()[0]->pieces(shard))
      padding.narrow(0, piece.row - 128 * shard, piece.count).zero_();
    CHECK(padding.equal(at::zeros({128})));
    CHECK((shard != 0 || row[0].item<float>() < 1));
    CHECK(own.norm_powers().size() > 0);
  }
}

TEST_CASE("ops need whole parameters, and releases too, by name") {
  auto own = member(ten_elements(), {.shard = 0, .shards = 2});
  CHECK_FALSE(own.is_whole());
  CHECK_THROWS_MATCHES(
    own.require_whole("1F0"), error,
    says("1F0 runs while the stage's parameters are sharded, not whole"));
  CHECK_THROWS_AS(own.release(), error);
  CHECK_THROWS_AS(own.take_shards(), error);
  const auto whole =
    member(ten_elements(), {.shard = 0, .shards = 2, .releases = false});
  CHECK(whole.is_whole());
  CHECK_NOTHROW(whole.require_whole("1F0"));
}

TEST_CASE("a shard drops absent gradients, listed by piece or by parameter") {
  auto own = member(ten_elements(), {.shard = 1, .shards = 2, .multiple = 8});
  REQUIRE(own.parts().size() == 1);  // of the second parameter
  const auto power_with = [&](const std::vector<float>& present) {
    own.put_gradients({at::ones({3})}, at::tensor(present));
    return own.norm_powers().at(1);
  };
  CHECK(power_with({1}) == 3);
  CHECK(power_with({0}) == 0);
  CHECK(power_with({0, 1}) == 3);
  CHECK(power_with({1, 0}) == 0);
}

TEST_CASE("a shard refuses an optimizer's state that lacks a parameter") {
  auto own = member(ten_elements(), {.shard = 1, .shards = 2, .multiple = 8});
  CHECK_NOTHROW(own.load_state({{"a"}, {"b"}}));
  CHECK_THROWS_MATCHES(own.load_state({{"a"}}), error,
                       says("the optimizer's state of 'b' is missing"));
}

TEST_CASE("a stage whose parameters are all frozen ends as it began") {
  parameter_list frozen;
  for (const auto& [name, value] : ten_elements())
    frozen.emplace_back(name, value.detach());
  auto own = member({}, {.shard = 1, .shards = 2, .multiple = 8}, frozen);
  const auto before = own.own_shards();
  step_of_ones(own);
  CHECK_FALSE(own.is_whole());
  CHECK(own.parameters().empty());
  REQUIRE(own.own_shards().size() == before.size());
  CHECK(own.own_shards().back().equal(before.back()));
}

TEST_CASE("parameters of a shard have one floating-point dtype") {
  auto mixed = ten_elements();
  mixed[1].second = at::ones({3}, at::kDouble).requires_grad_(true);
  CHECK_THROWS_MATCHES(member(mixed, {.shards = 2}), error,
                       says("need one floating-point dtype"));
  const parameter_list whole_numbers = {{"n", at::ones({3}, at::kLong)}};
  CHECK_THROWS_MATCHES(member({}, {.shards = 2}, whole_numbers), error,
                       says("need one floating-point dtype"));
}
