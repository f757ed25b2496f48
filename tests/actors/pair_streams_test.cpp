// Overlapped pairs on devices: the two ops of a pair run simultaneously on two
// compute streams, and no others do.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "../random_delays.hpp"
#include "faked_accelerator.hpp"
#include "graph_run.hpp"
#include "noted_ops.hpp"
#include "step_trace.hpp"
#include "troupe/actors/job/run_devices.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/overlapped_pairs.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

using names = std::vector<std::string>;

const std::vector<small_case> paired{
  {.schedule = "dualpipe_v", .ranks = 1, .stages_per_rank = 2},
  {.schedule = "dualpipe_v", .ranks = 2, .stages_per_rank = 2},
  {.schedule = "dualpipe_v",
   .ranks = 3,
   .stages_per_rank = 2,
   .microbatches = 7},
  {.schedule = "dualpipe", .ranks = 2},
  {.schedule = "dualpipe", .ranks = 4, .microbatches = 10}};

const small_case in_a_v = paired[1];

/// Whether a stream is its rank's first compute stream, by the numbering of
/// ranks that have two.
bool is_first(int stream) {
  return stream % (streams_of_rank + 1) == 0;
}
bool is_second(int stream) {
  return stream % (streams_of_rank + 1) == streams_of_rank;
}

/// Checks that overlapped pairs train the plain loop's bits, and that separate
/// ones do.
void compare(const small_case& what, std::uint32_t seed = 0) {
  INFO(describe(what));
  const auto plain = train_plainly(what, nullptr);
  for (const bool pairs : {true, false}) {
    const auto device = std::make_shared<faked_accelerator>();
    auto options = options_for(what);  // what.overlaps applies to reductions
    options.devices = {device};
    options.overlap.pairs = pairs;
    if (seed > 0)
      options.execution.handler_hook = random_delays(seed);
    trainer run(model_for(what), options);
    for (int i = 0; i < 3; ++i)
      run.step(small_text());
    run.check_replicas();
    CHECK(first_difference(plain.parameters, on_host(run.parameters())) == "");
    CHECK(device->watched() > 1000);
    CHECK(device->races() == names{});
  }
}

}  // namespace

TEST_CASE("overlapped pairs train the plain loop's bits on a device") {
  for (const auto& what : paired)
    compare(what);
}

TEST_CASE("overlapped pairs train replicas' bits on a device, clipped") {
  for (auto what : {in_a_v, paired[3]})
    for (const bool overlaps : {true, false}) {
      what.clip = 0.5;
      what.data_parallel = 2;
      what.overlaps = overlaps;
      compare(what);
    }
}

TEST_CASE("overlapped pairs train the same bits with ops that come late") {
  for (const std::uint32_t seed : {1, 2})
    for (auto what : {in_a_v, paired[3]}) {
      what.clip = 0.5;
      compare(what, seed);
      what.data_parallel = 2;
      what.order = lane_order::any_ready;
      compare(what, seed);
    }
}

TEST_CASE("the ops of a pair run at once, and no other ops of a rank do") {
  const auto device = std::make_shared<faked_accelerator>();
  for (const auto& what : paired) {
    INFO(describe(what));
    const auto step = note_step(what, device);
    CHECK(pairs_of(step).size() >= 2);
    CHECK(unordered_ops(step) == pairs_of(step));
    CHECK(unordered_ops(note_step(what, device, {.pairs = false})) == names{});
  }
  const auto step =
    note_step({.schedule = "interleaved_1f1b", .stages_per_rank = 2}, device);
  CHECK(unordered_ops(step) == names{});
  CHECK(device->races() == names{});
}

TEST_CASE("a rank's two compute streams wait for each other, both ways") {
  const auto inner = std::make_shared<faked_accelerator>();
  const auto step_without = [&](auto leaves_out) {
    return note_step(in_a_v,
                     std::make_shared<disturbed_accelerator>(
                       inner, device_disturbance{.leaves_out = leaves_out}));
  };
  const auto none_left_out = step_without([](int, int) { return false; });
  CHECK(unordered_ops(none_left_out) == pairs_of(none_left_out));
  CHECK(inner->races() == names{});
  SECTION("the second would not wait for the first") {
    const auto step = step_without(
      [](int of, int by) { return is_first(of) && is_second(by); });
    CHECK(unordered_ops(step).size() > pairs_of(step).size());
    CHECK(inner->races() != names{});
  }
  SECTION("the first would not wait for the second") {
    const auto step = step_without(
      [](int of, int by) { return is_second(of) && is_first(by); });
    CHECK(unordered_ops(step).size() > pairs_of(step).size());
    CHECK(inner->races() != names{});
  }
}

TEST_CASE("a pair's times are those of both of its ops on the device") {
  const auto device = std::make_shared<faked_accelerator>();
  constexpr double seconds = 1000;
  const auto length_of = [](const noted_step& step) {
    auto begin = INT64_MAX, end = INT64_MIN;
    for (const auto& rank : step.ops)
      for (const auto& op : rank.ops)
        if (is_compute(step.of->ops[op.op].kind)) {
          begin = std::min(begin, op.begin);
          end = std::max(end, op.end);
        }
    return static_cast<double>(end - begin) * 1e-9;
  };
  const auto together = note_step(in_a_v, device, {}, seconds);
  CHECK(pairs_at_once(together) >= 2);
  const auto apart = note_step(in_a_v, device, {.pairs = false}, seconds);
  CHECK(pairs_at_once(apart) == 0);
  CHECK(length_of(together) < length_of(apart) - seconds / 2);
}

TEST_CASE("steps with overlapped pairs are recorded and launched") {
  for (const auto& what : paired)
    compare_graphs(what);
  auto replicas = in_a_v;
  replicas.clip = 0.5;
  replicas.data_parallel = 2;
  compare_graphs(replicas);
}

TEST_CASE("a run takes up an order with pairs, and one without, on a device") {
  for (const bool first : {true, false}) {
    auto begins = in_a_v;
    begins.schedule = first ? "dualpipe_v" : "zb_v";
    auto goes_on = in_a_v;
    goes_on.schedule = first ? "zb_v" : "dualpipe_v";
    const auto device = std::make_shared<faked_accelerator>();
    auto options = options_for(begins);
    options.devices = {device};
    trainer run(model_for(begins), options);
    run.step(small_text());
    run.replan(make_schedule(goes_on.schedule, shape_of(goes_on)));
    run.step(small_text());
    run.step(small_text());
    const auto plain = train_plainly(begins, nullptr);
    CHECK(first_difference(plain.parameters, on_host(run.parameters())) == "");
    CHECK(device->races() == names{});
  }
}

TEST_CASE("stages that pairs connect use different streams of their rank") {
  const auto device = std::make_shared<faked_accelerator>();
  const auto of = compile(make_schedule("dualpipe_v", shape_of(in_a_v)));
  const auto layout = make_layout(0, 1, 2, 2);
  const auto compute = [](const run_devices& devices, std::int32_t stage) {
    return &devices.of(1, stage_instance{stage})->compute();
  };
  const run_devices apart({device}, {}, layout, of);
  CHECK(&apart.of(1, 0)->compute() == compute(apart, 0));
  CHECK(compute(apart, 0) != compute(apart, 3));
  CHECK(compute(apart, 1) != compute(apart, 2));
  CHECK(&apart.of(1, 0)->data() == &apart.of(1, stage_instance{3})->data());
  const run_devices together({device}, {.pairs = false}, layout, of);
  CHECK(compute(together, 0) == compute(together, 3));
  CHECK(run_devices({}, {}, layout, of).of(1, stage_instance{3}) == nullptr);
}

TEST_CASE("the host waits when it is 64 ops ahead of both compute streams") {
  check_throttle(std::make_shared<faked_accelerator>(), 5,
                 {.schedule = "dualpipe_v",
                  .ranks = 1,
                  .stages_per_rank = 2,
                  .microbatches = 32});
}
