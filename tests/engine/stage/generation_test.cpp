// Forwards with the cache compared with the forward of the whole sequence.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <catch2/catch_test_macros.hpp>

#include "../models/usual_values.hpp"
#include "driven_stage.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t vocabulary = 32, longest = 24;

model model_of(const std::string& name) {
  const auto& entry = find_model(name);
  auto values = usual_values(entry);
  values["d-model"] = std::int64_t{16};
  values["layers"] = std::int64_t{4};
  values["heads"] = std::int64_t{2};
  return entry
    .build(values, {.length = longest, .seed = 3, .vocabulary = vocabulary})
    .layers;
}

/// A model in one stage that processes a sequence in parts, over several steps.
struct generating_stage {
  explicit generating_stage(const model& layers)
    : module(std::make_shared<layer_sequence>(
      layers, layer_range{0, static_cast<std::int32_t>(layers.size())})),
      compute(module, {}) {}

  /// Begins a step with so many slices.
  void begin(std::int32_t slices, std::vector<std::int64_t> batches,
             std::map<std::int64_t, std::vector<std::int64_t>> rows = {}) {
    generation_step step{
      .batches = std::move(batches),
      .kept_rows = std::move(rows),
      .choose = [this](std::int64_t, const at::Tensor& last) {
        logits = last;
        return at::Tensor{};
      }};
    step_settings settings;
    settings.phase = phase::inference;
    settings.slices = slices;
    settings.microbatches = static_cast<std::int32_t>(step.batches.size());
    settings.generation = std::make_shared<generation_step>(std::move(step));
    compute.begin_step(settings);
  }
  /// The logits of the last position.
  at::Tensor run(microbatch_key key, const at::Tensor& ids) {
    microbatch_data data;
    data.inputs = {ids};
    logits = at::Tensor{};
    driven.forward(key, {}, data);
    return logits;
  }
  at::Tensor whole(const at::Tensor& ids) {
    const at::NoGradGuard no_grad;
    return module->forward({ids}).at(0).select(1, -1);
  }

  std::shared_ptr<layer_sequence> module;
  module_compute compute;
  driven_stage driven{compute};
  at::Tensor logits;
};

void check_close(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  CHECK((a - b).abs().max().item<double>() < 1e-5);
}

}  // namespace

TEST_CASE("positions one by one give the logits of the whole sequence") {
  for (const auto* name : {"gpt", "u_net"})
    for (const std::int64_t prompt : {1, 2, 7, 15})
      for (const std::int32_t slices : {1, 3, 8}) {
        CAPTURE(name, prompt, slices);
        generating_stage stage(model_of(name));
        const auto ids = at::randint(vocabulary, {2, longest}, at::kLong);
        std::int64_t end = 0;
        while (end < longest) {
          stage.begin(slices, {5});
          for (std::int16_t s = 0; s < slices && end < longest; ++s) {
            const auto begin = std::exchange(end, end == 0 ? prompt : end + 1);
            check_close(stage.run({0, s}, ids.slice(1, begin, end)),
                        stage.whole(ids.slice(1, 0, end)));
          }
        }
      }
}

TEST_CASE("batches keep apart, rows leave, and ended batches are forgotten") {
  generating_stage stage(model_of("gpt"));
  const auto a = at::randint(vocabulary, {3, 8}, at::kLong);
  const auto b = at::randint(vocabulary, {1, 8}, at::kLong);
  stage.begin(1, {0, 1});
  stage.run({0, 0}, a.slice(1, 0, 4));
  stage.run({1, 0}, b.slice(1, 0, 2));
  stage.begin(1, {1, 0}, {{0, {0, 2}}});
  check_close(stage.run({0, 0}, b.slice(1, 2, 3)),
              stage.whole(b.slice(1, 0, 3)));
  const auto rows = at::cat({a.slice(0, 0, 1), a.slice(0, 2)});
  check_close(stage.run({1, 0}, rows.slice(1, 4, 5)),
              stage.whole(rows.slice(1, 0, 5)));
  stage.begin(1, {1});
  stage.begin(1, {1, 0});  // 0 starts a new sequence
  check_close(stage.run({1, 0}, rows.slice(1, 0, 2)),
              stage.whole(rows.slice(1, 0, 2)));
  check_close(stage.run({0, 0}, b.slice(1, 3, 4)),
              stage.whole(b.slice(1, 0, 4)));
  stage.compute.forget_sequences();
  stage.begin(1, {1});
  check_close(stage.run({0, 0}, b.slice(1, 0, 4)),
              stage.whole(b.slice(1, 0, 4)));
}

TEST_CASE("without tokens a slice does nothing, and keeps what is there") {
  generating_stage stage(model_of("gpt"));
  const auto ids = at::randint(vocabulary, {1, 8}, at::kLong);
  stage.begin(3, {0, generation_step::no_batch});
  stage.run({0, 0}, ids.slice(1, 0, 3));
  for (std::int16_t s = 1; s < 3; ++s) {
    const auto outputs = stage.driven.forward({0, s}, {});
    CHECK(outputs.empty());
  }
  CHECK(stage.driven.forward({1, 0}, {}).empty());
  stage.begin(1, {0});
  check_close(stage.run({0, 0}, ids.slice(1, 3, 4)),
              stage.whole(ids.slice(1, 0, 4)));
}
