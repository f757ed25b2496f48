#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/monitors/tensors/overflow.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <random>

#include "overflow_run.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The place where a non-finite value is injected. Microbatches are numbered
/// over all replicas.
struct injection {
  std::int32_t layer, microbatch;
  bool backward;
  double value;

  /// Its place in causal order.
  auto order() const {
    return std::tuple(microbatch, backward, backward ? -layer : layer);
  }
};

/// y = x w, elementwise, with the injections of its layer. The last column is
/// the microbatch's number and stays unchanged.
struct injected_layer final : stage_module {
  injected_layer(std::int32_t number, std::vector<injection> all)
    : layer(number), injections(std::move(all)) {
    weight = register_parameter("weight", at::tensor({1.5F, 1.5F, 1.5F, 1.F}));
  }
  tensor_list forward(const tensor_list& inputs) override {
    auto y = inputs.at(0) * weight;
    const auto microbatch = inputs.at(0)[0][3].item<std::int32_t>();
    for (const auto& what : injections) {
      if (what.layer != layer || what.microbatch != microbatch)
        continue;
      const auto bad = at::tensor({1.F, 1.F, 1.F, 0.F}) == 1;
      if (!what.backward)
        y = at::where(bad, y + what.value, y);
      else if (y.requires_grad())
        y.register_hook([value = what.value](const at::Tensor& gradient) {
          return gradient + value;
        });
    }
    return {y};
  }
  std::int32_t layer;
  std::vector<injection> injections;
  at::Tensor weight;
};

struct trial {
  std::string schedule;
  schedule_shape sizes;
  std::int32_t data_parallel = 1;
  std::vector<injection> injections;
  std::int32_t bad_data = -1;  // a microbatch
};

trial random_trial(std::mt19937& random, std::int32_t data_parallel) {
  const auto below = [&](std::int32_t n) {
    return static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
  };
  const std::vector<std::string> names{"gpipe", "1f1b", "eager_1f1b",
                                       "interleaved_1f1b", "breadth_first"};
  trial result;
  result.schedule = names[static_cast<std::size_t>(below(5))];
  const bool interleaved =
    result.schedule == "interleaved_1f1b" || result.schedule == "breadth_first";
  result.sizes.ranks = 1 + below(3);
  result.sizes.stages_per_rank = interleaved ? 2 : 1;
  result.sizes.microbatches = result.sizes.ranks * (1 + below(3));
  result.data_parallel = data_parallel;
  const auto stages = result.sizes.ranks * result.sizes.stages_per_rank;
  const auto microbatches = result.sizes.microbatches * data_parallel;
  for (int i = 0; i <= below(3); ++i)
    result.injections.push_back({below(stages), below(microbatches),
                                 below(2) == 1,
                                 below(2) == 1 ? NAN : INFINITY});
  if (below(8) == 0)
    result.bad_data = below(microbatches);
  return result;
}

/// The beginning of the report.
std::string expected(const trial& what) {
  const auto place = [&](std::int32_t layer, std::int32_t microbatch) {
    const auto replica = microbatch / what.sizes.microbatches;
    return fmt::format(
      "{}rank {}, stage {}, microbatch {}",
      replica > 0 ? fmt::format("replica {}, ", replica) : std::string{},
      layer % what.sizes.ranks, layer, microbatch % what.sizes.microbatches);
  };
  const auto first = *std::ranges::min_element(
    what.injections, {}, [](const injection& i) { return i.order(); });
  if (what.bad_data >= 0 && what.bad_data <= first.microbatch)
    return fmt::format("input[0] of layers.0 (input), {}, forward",
                       place(0, what.bad_data));
  return fmt::format("{} of layers.{} ({}), {}, {}",
                     first.backward ? "gradient of output" : "output",
                     first.layer,
                     first.backward ? "activation gradient" : "activation",
                     place(first.layer, first.microbatch),
                     first.backward ? "backward" : "forward");
}

/// What is said of the second step, before which all was finite.
overflow_run reported(const trial& what, bool recompute,
                      overflow_reading reading) {
  model layers;
  const auto stages = what.sizes.ranks * what.sizes.stages_per_rank;
  for (std::int32_t s = 0; s < stages; ++s)
    layers.push_back(
      {fmt::format("layers.{}", s),
       [=] { return std::make_shared<injected_layer>(s, what.injections); }});
  trainer_options options;
  options.schedule = make_schedule(what.schedule, what.sizes);
  options.numerics.loss = options_g(1, 1).numerics.loss;
  options.numerics.recompute = recompute;
  options.data_parallel = what.data_parallel;
  options.execution.holds_updates = true;
  overflow_run output;
  trainer run(layers, options);
  run.attach(output.watch({.reading = reading}));
  const auto from = [bad = what.bad_data](std::int64_t first) {
    return make_source([=](std::int64_t k) {
      auto rows = at::full({2, 4}, 1.0F);
      rows.select(1, 3).fill_(k - first);
      if (bad >= 0 && k - first == bad)
        rows[1][2] = NAN;
      return microbatch_data{{rows}, {}, {}, 2};
    });
  };
  const auto all = what.sizes.microbatches * what.data_parallel;
  run.evaluate(from(0), all);  // has bad values, but is not examined
  const auto source = from(all);
  run.step(source, /*skip_update=*/true);
  run.step(source);
  output.finish(run);
  CHECK(output.alerts.size() == 1);
  CHECK(output.readings.at(2)
        == (reading == overflow_reading::watch ? step_reading::again
                                               : step_reading::once));
  return output;
}

}  // namespace

TEST_CASE("the first bad tensor is named for 200 random injections") {
  const auto data_parallel = GENERATE(1, 2);
  const bool recompute = GENERATE(false, true);
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const auto what = random_trial(random, data_parallel);
    CAPTURE(i, what.schedule, what.sizes.ranks, what.sizes.microbatches,
            what.injections.size(), what.bad_data, data_parallel, recompute);
    const auto read = reported(what, recompute, overflow_reading::full);
    const auto watched = reported(what, recompute, overflow_reading::watch);
    CHECK_THAT(watched.error_text,
               ContainsSubstring("not finite is " + expected(what) + ":"));
    CHECK(watched.error_text == read.error_text);
    CHECK(frames_of_batch(watched.printed, 1)
          == frames_of_batch(read.printed, 1));
  }
}
