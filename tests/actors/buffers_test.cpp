// Buffers of modules: checkpoints hold them, and a resumed run continues them.
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>

#include <map>

#include "../says.hpp"
#include "../temporary_folder.hpp"
#include "saved_run.hpp"
#include "small_modules.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Scales by a running mean of its inputs, so that a lost buffer changes bits.
struct running_scale final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    const auto outputs = inputs[0] * weight * (1 + mean.detach().clone());
    if (is_training()) {
      mean.mul_(0.9).add_(inputs[0].detach().mean(0), 0.1);
      count.add_(1);
    }
    return {outputs};
  }
  at::Tensor weight = register_parameter("weight", at::full({4}, 0.5));
  at::Tensor mean = register_buffer("mean", at::zeros({4}));
  at::Tensor count = register_buffer("count", at::zeros({}, at::kLong));
  at::Tensor table =
    register_buffer("table", at::complex(at::ones({2}), at::zeros({2})));
  at::Tensor unused = register_buffer("unused", {});
};

model scales(std::int32_t layers) {
  model result;
  for (std::int32_t i = 0; i < layers; ++i)
    result.push_back({"scale" + std::to_string(i),
                      [] { return std::make_shared<running_scale>(); }});
  return result;
}

trainer run_of(const char* schedule, const schedule_shape& shape,
               sharding_options sharding = {}, std::int32_t data_parallel = 1) {
  trainer_options options;
  options.schedule = make_schedule(schedule, shape);
  options.numerics.optimizer = sgd{.learning_rate = 0.1, .momentum = 0.9};
  options.numerics.loss = mean_of;
  options.sharding = sharding;
  options.data_parallel = data_parallel;
  return {scales(4), std::move(options)};
}

/// All tensors of a run by name, as a checkpoint would hold them.
std::map<std::string, at::Tensor> tensors_of(const trainer& run) {
  std::map<std::string, at::Tensor> all;
  for (const auto& [part, tensors] : run.snapshot())
    all.insert(tensors.begin(), tensors.end());
  return all;
}

void check_equal(const trainer& run, const trainer& reference) {
  const auto own = tensors_of(run), others = tensors_of(reference);
  CHECK(own.size() == others.size());
  for (const auto& [name, value] : others) {
    CAPTURE(name);
    REQUIRE(own.contains(name));
    CHECK(own.at(name).equal(value));
  }
}

}  // namespace

TEST_CASE("a run resumed from a checkpoint continues its buffers") {
  const temporary_folder folder;
  auto straight = run_of("1f1b", {.ranks = 2, .microbatches = 2});
  auto begun = run_of("zb_h1", {.ranks = 4, .microbatches = 2});
  for (int step = 0; step < 4; ++step)
    straight.step(small_rows());
  for (int step = 0; step < 2; ++step)
    begun.step(small_rows());
  const stored_checkpoint saved(saved_run(begun, folder / "saved"));
  CHECK(saved.read("scale3.count").item<std::int64_t>() == 4);
  CHECK(saved.read("scale0.table").is_complex());
  CHECK(saved.find("scale0.unused") == nullptr);
  auto resumed = run_of("gpipe", {.ranks = 1, .microbatches = 2});
  resumed.restore(saved);
  for (int step = 0; step < 2; ++step)
    resumed.step(small_rows());
  check_equal(resumed, straight);
}

TEST_CASE("each replica resumes with the buffers of the first") {
  const temporary_folder folder;
  auto begun = run_of("gpipe", {.ranks = 2, .microbatches = 2});
  begun.step(small_rows());
  const stored_checkpoint saved(saved_run(begun, folder / "saved"));
  for (const auto mode : {shard_mode::replicate, shard_mode::all}) {
    auto resumed = run_of("1f1b", {.ranks = 2, .microbatches = 2},
                          {.mode = mode}, /*data_parallel=*/2);
    resumed.restore(saved);
    check_equal(resumed, begun);
    // Both replicas get the same rows, and take the same scales.
    const auto same =
      make_source([](std::int64_t) { return small_rows()->at(0); });
    resumed.step(same);
    auto alone = run_of("1f1b", {.ranks = 2, .microbatches = 2});
    alone.restore(saved);
    alone.step(same);
    CHECK(first_difference(resumed.parameters(), alone.parameters()) == "");
  }
}

TEST_CASE("buffers have a dtype of their own") {
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  options.numerics.loss = mean_of;
  options.numerics.dtypes = {.parameters = at::kBFloat16,
                             .buffers = at::kFloat};
  trainer run(scales(2), options);
  run.step(small_rows());
  const auto all = tensors_of(run);
  CHECK(all.at("scale1.weight").scalar_type() == at::kBFloat16);
  CHECK(all.at("scale1.mean").scalar_type() == at::kFloat);
  CHECK(all.at("scale1.count").scalar_type() == at::kLong);
  CHECK(all.at("scale1.table").scalar_type() == at::kComplexFloat);
}

TEST_CASE("recompute, which would change buffers twice, is refused") {
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  options.numerics.loss = mean_of;
  options.numerics.recompute = true;
  trainer run(scales(2), options);
  CHECK_THROWS_MATCHES(
    run.step(small_rows()), error,
    says("the forward of stage 0 changes the buffer 'scale0.mean'"));
}

TEST_CASE("a checkpoint of other buffers is refused") {
  const temporary_folder folder;
  auto begun = run_of("gpipe", {.ranks = 1, .microbatches = 1});
  auto parts = begun.snapshot();
  std::erase_if(parts[0],
                [](const auto& named) { return named.first == "scale2.mean"; });
  const checkpoint_folder files(folder / "saved");
  files.prepare();
  files.write_part(0, 0, parts[0]);
  files.complete({.run = "a run"}, 1, {});
  const stored_checkpoint saved(files.path_of(0));
  CHECK_THROWS_MATCHES(
    begun.restore(saved), error,
    says("holds 40 elements of parameters and buffers, the model has 44"));
}
