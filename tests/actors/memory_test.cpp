#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <vector>

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

/// KiB per step by which resident memory grows in the last half of a run: the
/// median over 16 parts of it, since a moment with more messages in flight, as
/// on a busy machine, raises it once and for good.
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
  constexpr std::int64_t parts = 16;
  const auto part = steps / 2 / parts;
  std::vector<std::int64_t> grown;
  std::int64_t before = 0;
  for (const auto& step : run.train(source, steps)) {
    const auto done = step.source.step;
    if (done < steps / 2 || done % part != 0)
      continue;
    const auto now = resident_bytes();
    if (before > 0)
      grown.push_back(now - before);
    before = now;
  }
  std::ranges::nth_element(grown, grown.begin() + parts / 2);
  return static_cast<double>(grown.at(parts / 2)) / 1024
         / static_cast<double>(part);
}

}  // namespace

TEST_CASE("resident memory does not grow with the steps of a run") {
  CHECK(growth(20'000) < 0.1);
}

TEST_CASE("resident memory does not grow in a long run", "[.full]") {
  CHECK(growth(100'000) < 0.02);
}
