// The parts of a trainer, each without the others: no actor runs here.
#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "small_model.hpp"
#include "troupe/actors/held_stages.hpp"
#include "troupe/actors/run_plans.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::shared_ptr<const plan> of_shape(std::int32_t microbatches,
                                     std::int32_t positions) {
  plan shaped;
  shaped.microbatches = microbatches;
  shaped.slices = positions;
  return std::make_shared<const plan>(std::move(shaped));
}

}  // namespace

TEST_CASE("plans that generate are kept by their shape, the last ones") {
  generation_plans cache;
  CHECK(cache.find(1, 2) == nullptr);
  const auto first = of_shape(1, 2);
  cache.keep(first);
  cache.keep(of_shape(2, 1));
  CHECK(cache.find(1, 2) == first);
  CHECK(cache.find(2, 2) == nullptr);
  const auto most = static_cast<std::int32_t>(generation_plans::most);
  for (std::int32_t i = 0; i < most - 1; ++i) {
    cache.keep(of_shape(3, i + 1));
    CHECK(cache.find(1, 2) == first);
  }
  CHECK(cache.size() == generation_plans::most);
  CHECK(cache.find(2, 1) == nullptr);  // the least recently used
  for (std::int32_t i = 0; i < most; ++i)
    cache.keep(of_shape(4, i + 1));
  CHECK(cache.size() == generation_plans::most);
  CHECK(cache.find(1, 2) == nullptr);
}

TEST_CASE("plans switch when the next training step takes another one up") {
  const small_case what{.ranks = 2, .microbatches = 4};
  const trainer_setup setup(model_for(what), options_for(what));
  run_plans plans(setup);
  const auto first = plans.training();
  CHECK(first->schedule_name == "1f1b");
  CHECK_FALSE(plans.evaluation()->training);
  plans.take_up(1);
  CHECK(plans.training() == first);
  plans.replan(make_schedule("gpipe", shape_of(what)));
  CHECK(plans.training() == first);
  plans.take_up(2);
  CHECK(plans.training()->schedule_name == "gpipe");
  CHECK_THROWS_MATCHES(
    plans.replan(make_schedule("1f1b", {.ranks = 2, .microbatches = 8})), error,
    MessageMatches(ContainsSubstring("8 microbatches")));
  plans.take_up(3);
  CHECK(plans.training()->schedule_name == "gpipe");
}

TEST_CASE("generation reuses the plan of a shape") {
  const small_case what;
  const trainer_setup setup(model_for(what), options_for(what));
  run_plans plans(setup);
  const auto prompt = plans.generation(2, 5);
  CHECK(prompt->slices == 5);
  CHECK(plans.generation(2, 1) != prompt);
  CHECK(plans.generation(2, 5) == prompt);
}

TEST_CASE("held stages load, gather and restore without a run") {
  for (const auto mode :
       {shard_mode::replicate, shard_mode::gradients, shard_mode::all}) {
    small_case what{.ranks = 2, .data_parallel = 2};
    what.sharding.mode = mode;
    const auto layers = model_for(what);
    const trainer_setup setup(layers, options_for(what));
    const run_plans plans(setup);
    held_stages stages(setup, layers, *plans.training());
    stages.publish_to([](tensors_event) {});
    auto values = stages.parameters();
    for (auto& [name, value] : values)
      value = value.detach() + 1;
    stages.load(values, "a test");
    CHECK(first_difference(stages.parameters(), values).empty());
    CHECK(first_difference(stages.gather(), values).empty());
    CHECK_NOTHROW(stages.check_replicas());
    CHECK(stages.snapshot().size() == 2);
    CHECK_FALSE(stages.buffers_changed());
    CHECK(stages.ops_write_state() == (mode != shard_mode::replicate));
    values.pop_back();
    CHECK_THROWS_AS(stages.load(values, "a test"), error);
  }
}
