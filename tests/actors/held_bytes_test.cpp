// The bytes that a rank holds according to the plan, compared with those that
// LibTorch allocates.
#include "troupe/engine/plan/cost/peak_bytes.hpp"

#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <c10/core/CPUAllocator.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "faked_accelerator.hpp"
#include "small_model.hpp"
#include "step_trace.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/schedules/lane_builder.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

/// Counts LibTorch's allocations on the CPU during its lifetime, except those
/// for one stream of a faked accelerator.
class counted_memory {
 public:
  explicit counted_memory(int uncounted_stream = -1)
    : before_(c10::GetCPUAllocator()) {
    current() = peak() = 0;
    counting().uncounted_stream = uncounted_stream;
    counting().base = before_;
    c10::SetCPUAllocator(&counting(), 100);
  }
  ~counted_memory() { c10::SetCPUAllocator(before_, 100); }
  counted_memory(const counted_memory&) = delete;
  counted_memory& operator=(const counted_memory&) = delete;

  static std::int64_t most() { return peak(); }
  static void begin() { peak() = current().load(); }
  static std::int64_t now() { return current(); }

 private:
  struct block {
    c10::DataPtr data;
    std::int64_t bytes;
  };
  static std::atomic<std::int64_t>& current() {
    static std::atomic<std::int64_t> bytes{0};
    return bytes;
  }
  static std::atomic<std::int64_t>& peak() {
    static std::atomic<std::int64_t> bytes{0};
    return bytes;
  }
  static void release(void* context) {
    auto* const freed = static_cast<block*>(context);
    current() -= freed->bytes;
    delete freed;
  }
  struct allocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
      auto memory = base->allocate(bytes);
      if (current_stream == uncounted_stream)
        return memory;
      auto* const data = memory.get();
      const auto size = static_cast<std::int64_t>(bytes);
      auto* const counted = new block{std::move(memory), size};
      const auto now = current() += size;
      auto most = peak().load();
      while (most < now && !peak().compare_exchange_weak(most, now)) {
      }
      return {data, counted, &release, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* to, const void* from,
                   std::size_t bytes) const override {
      default_copy_data(to, from, bytes);
    }
    c10::Allocator* base = nullptr;
    int uncounted_stream = -1;
  };
  static allocator& counting() {
    static auto* const only = new allocator;  // tensors may outlive the test
    return *only;
  }

  c10::Allocator* before_;
};

/// y = 2 tanh(x), of 1 MiB: the layer keeps tanh(x), and the stage its input.
struct tanh_layer final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    return {at::tanh(inputs[0] * factor) * 2};
  }
  at::Tensor factor = register_parameter("factor", at::ones({1}));
};

/// The peak of the second step, less what was allocated before it.
double measured(trainer& run) {
  const auto source = make_source([](std::int64_t) {
    microbatch_data data;
    data.inputs = {at::ones({mebibyte / 4})};
    return data;
  });
  run.step(source);
  const auto before = counted_memory::now();
  counted_memory::begin();
  run.step(source);
  return static_cast<double>(counted_memory::most() - before);
}

model four_layers() {
  model layers;
  for (int i = 0; i < 4; ++i)
    layers.push_back({"layer." + std::to_string(i),
                      [] { return std::make_shared<tanh_layer>(); }});
  return layers;
}

trainer_options held_options(schedule order) {
  trainer_options options;
  options.schedule = std::move(order);
  options.numerics.optimizer = sgd{.learning_rate = 0.1};
  options.execution.loading.prefetch = 0;
  options.numerics.loss = [](const tensor_list& outputs,
                             const microbatch_data&) {
    return std::vector<loss_term>{{"loss", at::mean(outputs[0])}};
  };
  return options;
}

/// `temporary`: additional bytes of a backward.
void check_bytes(const trainer_options& options, const value_sizes& sizes,
                 double temporary = 0) {
  trainer run(four_layers(), options);
  const auto bytes = measured(run);
  const auto on_paper =
    peak_bytes(run.plan(), simulate(run.plan()), sizes).at(0);
  INFO(options.schedule.name << " of " << options.schedule.stages()
                             << " stages: " << bytes / mebibyte
                             << " MiB, on paper " << on_paper / mebibyte);
  CHECK(bytes > on_paper - 1.5 * mebibyte);
  // ... and what an op needs
  CHECK(bytes < on_paper + temporary + 6 * mebibyte);
}

/// 1 MiB of parameters, applied to a single number.
struct heavy_layer final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs[0] * at::mean(weight)};
  }
  at::Tensor weight = register_parameter("weight", at::ones({mebibyte / 4}));
};

/// The peak of a step of four replicas on one rank each, with eight stages of 1
/// MiB; what they hold between two steps; and the same by the plan.
struct replicas_memory {
  double most = 0, between = 0, on_paper = 0;
};
replicas_memory memory_of(const sharding_options& sharding) {
  model layers;
  for (int i = 0; i < 8; ++i)
    layers.push_back({"layer." + std::to_string(i),
                      [] { return std::make_shared<heavy_layer>(); }});
  auto options = held_options(make_schedule(
    "breadth_first", {.ranks = 1, .stages_per_rank = 8, .microbatches = 2}));
  options.numerics.optimizer = adamw{};
  options.data_parallel = 4;
  options.sharding = sharding;
  const auto before = counted_memory::now();
  trainer run(layers, options);
  const auto source = make_source([](std::int64_t) {
    microbatch_data data;
    data.inputs = {at::ones({1})};
    return data;
  });
  run.step(source);
  const auto between = counted_memory::now() - before;
  // The median of five steps, as the overlap of replicas is random.
  std::array<std::int64_t, 5> most;
  for (auto& each : most) {
    counted_memory::begin();
    run.step(source);
    each = counted_memory::most();
  }
  std::ranges::sort(most);
  value_sizes sizes;
  sizes.usual.parameters =
    4.0 * mebibyte / (sharding.mode == shard_mode::all ? 4 : 1);
  if (sharding.mode == shard_mode::all)
    sizes.usual.whole = sizes.usual.whole_gradient = mebibyte;
  return {double(most[2] - before), double(between),
          4 * peak_bytes(run.plan(), simulate(run.plan()), sizes).at(0)};
}

/// The forwards and I of one microbatch after the other, then all W.
schedule deferring(std::int32_t stages) {
  return schedule::build(
    {.ranks = 1, .stages_per_rank = stages, .microbatches = 8},
    [=](lane_builder& rank) {
      for (std::int32_t m = 0; m < rank.microbatches(); ++m) {
        for (std::int32_t c = 0; c < stages; ++c)
          rank.forward(chunk(c));
        for (auto c = stages; c-- > 0;)
          rank.input_backward(chunk(c));
      }
      rank.weight_backward(rest());
    });
}

}  // namespace

TEST_CASE("a rank holds the bytes that the simulation says") {
  const counted_memory counts;
  for (const auto& [name, stages] :
       {std::pair{"gpipe", 1}, std::pair{"1f1b", 1},
        std::pair{"breadth_first", 2}, std::pair{"breadth_first", 4}}) {
    // A layer keeps x and tanh(factor x), and its stage the input.
    value_sizes sizes;
    sizes.usual = {.kept = (4.0 / stages) * 2 * mebibyte,
                   .activation = mebibyte,
                   .gradient = mebibyte};
    check_bytes(
      held_options(make_schedule(
        name, {.ranks = 1, .stages_per_rank = stages, .microbatches = 8})),
      sizes);
  }
}

TEST_CASE("a rank that offloads holds the bytes that the simulation says") {
  // Host memory is what is allocated for the first copy's stream.
  const counted_memory counts(streams_of_rank + 1);
  for (const auto& [name, stages] :
       {std::pair{"gpipe", 1}, std::pair{"breadth_first", 2}})
    for (const auto fraction : {0.5, 1.0})
      for (const bool recompute : {false, true}) {
        auto options = held_options(make_schedule(
          name, {.ranks = 1, .stages_per_rank = stages, .microbatches = 8}));
        options.devices = {std::make_shared<faked_accelerator>()};
        options.offload = {.fraction = fraction};
        options.numerics.recompute = recompute;
        value_sizes sizes;
        sizes.usual = {.kept = (recompute ? 1 : (4.0 / stages) * 2) * mebibyte,
                       .activation = mebibyte,
                       .gradient = mebibyte};
        CAPTURE(fraction, recompute);
        // Bytes of the second forward, with its outputs and their gradients.
        const auto recomputed = ((4.0 / stages) * 2 + 2) * mebibyte;
        check_bytes(options, sizes, recompute ? recomputed : 0);
      }
}

TEST_CASE("between I and W a rank holds what the simulation says") {
  const counted_memory counts;
  for (const auto stages : {2, 4})
    for (const auto split : {weight_split::layers, weight_split::graph}) {
      CAPTURE(split == weight_split::graph);
      auto options = held_options(deferring(stages));
      options.numerics.backward_split = split;
      const auto layers = 4.0 / stages;
      value_sizes sizes;
      // A cut keeps x and the gradient of x * factor; else there is that of
      // the factor. The first stage has no way to inputs that could be cut.
      sizes.usual = {
        .kept = layers * 2 * mebibyte,
        .deferred = split == weight_split::graph ? layers * 2 * mebibyte : 0,
        .activation = mebibyte,
        .gradient = mebibyte};
      sizes.of_stage[0] = sizes.usual;
      sizes.of_stage[0].deferred = 0;
      check_bytes(options, sizes);
    }
}

TEST_CASE("four replicas in shards hold a quarter, and two whole stages") {
  const counted_memory counts;
  const auto whole = memory_of({});
  const auto sharded = memory_of({.mode = shard_mode::all, .most_whole = 2});
  // Parameters, gradients and two moments, of eight stages and four replicas.
  CHECK(whole.most >= 4 * 8 * 4 * mebibyte);
  const double units = 4 * 2 * 2 * mebibyte;  // parameters and gradients
  INFO("whole " << whole.most / mebibyte << " MiB, sharded "
                << sharded.most / mebibyte << ", on paper "
                << sharded.on_paper / mebibyte << ", between two steps "
                << sharded.between / mebibyte);
  CHECK(std::abs(whole.on_paper / whole.most - 1) < 0.05);
  CHECK(std::abs(sharded.on_paper / sharded.most - 1) < 0.05);
  CHECK(sharded.most <= (whole.most / 4 + units) * 1.05);
  CHECK(sharded.between <= whole.most / 4 * 1.05);
  const auto moments = memory_of({.mode = shard_mode::gradients});
  CHECK(moments.between <= 1.05 * (1 + 3.0 / 4) * 8 * 4 * mebibyte);
}
