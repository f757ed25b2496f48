#include "device_trainings.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>

#include "faked_accelerator.hpp"
#include "step_trace.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const device_disturbance rough{.every = 2, .delay = 0.001, .blocks = 4};

}  // namespace

TEST_CASE("every schedule trains the same bits on a device, again and again") {
  const auto device = std::make_shared<faked_accelerator>();
  for (const auto& what : trained_schedules()) {
    INFO(describe(what));
    const auto once = train(what, device);
    CHECK(different_bits(once, train(what, device)) == "");
    CHECK(different_bits(once, train(what, nullptr)) == "");
    CHECK(distance(once, train(what, nullptr)) == 0);
  }
  CHECK(device->races() == std::vector<std::string>{});
}

TEST_CASE("the plain loop on a device is the pipeline's oracle there") {
  const auto device = std::make_shared<faked_accelerator>();
  for (const auto& what :
       {small_case{.clip = 0.5}, small_case{.data_parallel = 2},
        small_case{.use_sgd = true, .recompute = true},
        small_case{.autocast = at::kBFloat16}, small_case{.optimizer = lion{}},
        small_case{.optimizer = adafactor{}}, small_case{.optimizer = muon{}},
        small_case{.data_parallel = 2, .clip = 0.5, .tied = true},
        small_case{.schedule = "zb_v",
        .stages_per_rank = 2,
        .clip = 0.5,
        .tied = true}}) {
    INFO(describe(what));
    const auto plain = train_plainly(what, device);
    CHECK(different_bits(plain, train(what, device)) == "");
    CHECK(different_bits(plain, train_plainly(what, nullptr)) == "");
    CHECK(distance(plain, train_plainly(what, nullptr)) == 0);
  }
  CHECK(device->races() == std::vector<std::string>{});
}

TEST_CASE("an optimizer on the host trains the bits of one on the device") {
  const auto device = std::make_shared<faked_accelerator>();
  for (auto what : {small_case{.clip = 0.5}, small_case{.use_sgd = true},
                    small_case{.schedule = "zb_v", .stages_per_rank = 2},
                    small_case{.dtypes = {.parameters = at::kBFloat16}},
                    small_case{.data_parallel = 2, .optimizer = lion{}},
                    small_case{.data_parallel = 2,
                    .sharding = {.mode = shard_mode::gradients}},
                    small_case{.data_parallel = 2,
                    .sharding = {.mode = shard_mode::all}}}) {
    INFO(describe(what));
    const auto once = train(what, device);
    what.offload_optimizer = true;
    CHECK(different_bits(once, train(what, device)) == "");
    if (!what.sharding.shards())
      CHECK(different_bits(once, train_plainly(what, device)) == "");
  }
  CHECK(device->races() == std::vector<std::string>{});
}

TEST_CASE("outcomes that differ are told apart") {
  const auto once = train({.microbatches = 2}, nullptr);
  auto other = once;
  CHECK(different_bits(once, other) == "");
  other.outputs = once.outputs + 0.5;
  CHECK(different_bits(once, other) == "outputs differs from outputs");
  CHECK(std::abs(distance(once, other) - 0.5) < 1e-6);
  other.outputs = once.outputs / 0 * 0;
  CHECK(distance(once, other) > 1e300);
  other = once;
  other.norms[0] += 1;
  CHECK(different_bits(once, other) == "gradient norms differ");
}

TEST_CASE("a disturbed device trains the same bits, without a race") {
  const auto device = std::make_shared<faked_accelerator>();
  check_disturbed({.clip = 0.5}, device, rough);
  check_disturbed({.data_parallel = 2}, device, rough);
  check_disturbed({.data_parallel = 2, .tied = true}, device, rough);
  check_disturbed({.schedule = "interleaved_1f1b", .stages_per_rank = 2},
                  device, rough);
  CHECK(device->races() == std::vector<std::string>{});
}

TEST_CASE("a disturbed device delays streams and records which ones wait") {
  const auto inner = std::make_shared<faked_accelerator>();
  disturbed_accelerator device(inner, {.every = 2, .delay = 3, .blocks = 1});
  const auto a = device.make_stream(stream_priority::normal);
  const auto b = device.make_stream(stream_priority::high);
  const auto begin = a->record();
  a->enter();
  CHECK(device.disturbed() == 0);
  a->enter();
  CHECK(device.disturbed() == 1);
  const auto end = a->record();
  CHECK(end->seconds_since(*begin) >= 3);
  b->wait_for(*end);
  CHECK(b->record()->seconds_since(*begin) >= 3);
  CHECK(device.take_waits().empty());
  b->drain();
  end->wait();
  const auto waits = device.take_waits();
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].stream == 1);
  CHECK(waits[1].stream == 0);
  CHECK(waits[0].begin <= waits[0].end);
  CHECK(device.take_waits().empty());
}

// With SGD: AdamW's CPU kernel reads its step counts on the host, unlike a
// GPU's.
TEST_CASE("the host gives a step's ops without a wait") {
  const auto device = std::make_shared<faked_accelerator>();
  check_host_goes_on({.microbatches = 8, .use_sgd = true}, device, 5);
  check_host_goes_on({.schedule = "gpipe", .ranks = 1, .use_sgd = true}, device,
                     5);
  check_host_goes_on({.schedule = "interleaved_1f1b",
                      .stages_per_rank = 2,
                      .use_sgd = true,
                      .clip = 0.5},
                     device, 5);
}

TEST_CASE("the host waits when it is 64 ops ahead, and not before") {
  check_throttle(std::make_shared<faked_accelerator>(), 5);
}

TEST_CASE("an op's time on a device begins when its inputs are there") {
  const auto device = std::make_shared<faked_accelerator>();
  for (const auto& what :
       {small_case{}, small_case{.ranks = 3, .microbatches = 6},
        small_case{.schedule = "interleaved_1f1b", .stages_per_rank = 2}}) {
    INFO(describe(what));
    const auto trace = trace_step(what, device, 5);
    CHECK(disordered_ops(trace) == std::vector<std::string>{});
  }
}

TEST_CASE("ops that ran before their inputs existed are reported") {
  auto trace = trace_step({}, std::make_shared<faked_accelerator>(), 0);
  for (auto& op : trace.ops.at(1).ops)
    op.begin -= 1'000'000'000;
  CHECK(disordered_ops(trace).size() >= 4);
}

namespace {

/// Options with a loss that waits for its own value.
trainer_options waiting(trainer_options options) {
  options.numerics.loss = [inner = options.numerics.loss](
                            const tensor_list& outputs,
                            const microbatch_data& data) {
    auto terms = inner(outputs, data);
    terms.push_back(
      {"read", terms[0].value + terms[0].value.item<double>(), 1, 0});
    return terms;
  };
  return options;
}

}  // namespace

TEST_CASE("a wait within a step is detected") {
  const auto device = std::make_shared<faked_accelerator>();
  const auto trace = trace_step({.use_sgd = true}, device, 5, waiting);
  CHECK(trace.reads.size() == 4);
}
