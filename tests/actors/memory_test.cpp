#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

#include "small_model.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

struct scaling_layer final : stage_module {
  scaling_layer() { weight = register_parameter("weight", at::full({4}, 0.5)); }
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs.at(0) * weight};
  }
  at::Tensor weight;
};

/// KiB a step by which resident memory grows in the last half of a run.
double growth(std::int64_t steps) {
  const auto make = [] { return std::make_shared<scaling_layer>(); };
  auto options = options_for({.microbatches = 2});
  options.loss = [](const tensor_list& outputs, const microbatch_data&) {
    return std::vector<loss_term>{{"loss", outputs.at(0).sum()}};
  };
  trainer run({{"first", make}, {"second", make}}, options);
  const auto source = make_source([](std::int64_t) {
    return microbatch_data{{at::full({4}, 1.0)}, {}, {}};
  });
  std::int64_t half = 0;
  for (const auto& step : run.train(source, steps))
    if (step.source.step == steps / 2)
      half = resident_bytes();
  return static_cast<double>(resident_bytes() - half) / 1024
         / (static_cast<double>(steps) / 2);
}

}  // namespace

TEST_CASE("resident memory does not grow with the steps of a run") {
  CHECK(growth(20'000) < 0.1);
}

TEST_CASE("resident memory does not grow in a long run", "[.full]") {
  CHECK(growth(100'000) < 0.02);
}
