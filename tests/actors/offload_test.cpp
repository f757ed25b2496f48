// Activations that wait for their backward in the host's memory: the same bits,
// on a CPU and on a device, without a race.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "../says.hpp"
#include "catalogue_cases.hpp"
#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "step_trace.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::Message;

namespace {

constexpr auto all = [](small_case what) {
  what.offload = {.fraction = 1};
  return what;
};

void check_offloaded(const small_case& what) {
  INFO(describe(what));
  CHECK(compare_with_plain(what, 2) == "");
}

/// Schedules in which an activation waits for three ops or more.
const std::vector<small_case> offload_cases{
  all({.schedule = "gpipe"}),
  all({.schedule = "gpipe", .recompute = true}),
  all({.schedule = "zb_h1", .ranks = 3, .microbatches = 6}),
  all({.schedule = "zb_v", .stages_per_rank = 2}),
  all({.schedule = "seq_1f1b", .slices = 2}),
  all({.schedule = "seq_1f1b", .slices = 3, .recompute = true}),
  all({.schedule = "dualpipe", .microbatches = 6}),
  all({.schedule = "interleaved_1f1b",
       .stages_per_rank = 2,
       .data_parallel = 2,
       .clip = 0.5}),
  all({.schedule = "breadth_first", .stages_per_rank = 2, .tied = true}),
  all({.schedule = "breadth_first",
       .stages_per_rank = 2,
       .data_parallel = 2,
       .sharding = {.mode = shard_mode::all, .most_whole = 1}}),
  all({.schedule = "zb_v",
       .stages_per_rank = 2,
       .weight_split = weight_split::graph}),
  all({.schedule = "interleaved_1f1b",
       .stages_per_rank = 2,
       .order = lane_order::any_ready})};

std::int64_t offloads_of(const small_case& what) {
  trainer run(model_for(what), options_for(what));
  return std::ranges::count(run.plan().ops, plan_op_kind::offload,
                            &plan_op::kind);
}

using stream_pair = std::pair<int, int>;

}  // namespace

TEST_CASE("runs that offload activations train the plain loop's bits") {
  for (const auto& what : offload_cases) {
    check_offloaded(what);
    CHECK(offloads_of(what) > 0);
  }
}

TEST_CASE("each schedule that offloads trains the plain loop's bits") {
  for (auto what : trained_schedules()) {
    what.clip = 0;
    check_offloaded(all(what));
  }
}

TEST_CASE("a sample of shapes that offload trains the plain loop's bits",
          "[.full]") {
  std::size_t turn = 0;
  for (auto what : catalogue_cases())
    if (++turn % 3 == 0) {
      what.offload = {.fraction = turn % 2 == 0 ? 0.5 : 1,
                      .ahead = 1 + std::int32_t(turn / 3 % 3)};
      check_offloaded(what);
    }
}

TEST_CASE("offloaded activations in lower precision give the same bits") {
  for (auto what : {small_case{.schedule = "gpipe"},
                    small_case{.schedule = "zb_v", .stages_per_rank = 2}}) {
    what.autocast = at::kBFloat16;
    check_offloaded(all(what));
    what.autocast = {};
    what.dtypes = {.parameters = at::kBFloat16};
    check_offloaded(all(what));
  }
}

TEST_CASE("a device that offloads trains the same bits, without a race") {
  for (const auto& what : offload_cases) {
    INFO(describe(what));
    const auto device = std::make_shared<faked_accelerator>();
    auto without = what;
    without.offload = {};
    const auto trained = train(what, device);
    CHECK(different_bits(trained, train(without, nullptr)) == "");
    CHECK(device->races() == std::vector<std::string>{});
    auto overlap = overlap_options{};
    overlap.copies = false;
    CHECK(different_bits(train(what, device, overlap), trained) == "");
  }
}

TEST_CASE("a disturbed device that offloads trains the same bits") {
  const auto device = std::make_shared<faked_accelerator>();
  for (const auto& what : offload_cases)
    check_disturbed(what, device, {.every = 2, .delay = 0.001, .blocks = 4});
  CHECK(device->races() == std::vector<std::string>{});
}

TEST_CASE("each event between computing and the copies of activations counts") {
  const auto what = all({.schedule = "gpipe", .ranks = 1, .microbatches = 6});
  const auto train_without = [&](
                               const std::shared_ptr<faked_accelerator>& device,
                               std::function<bool(int, int)> leaves_out) {
    train(what,
          std::make_shared<disturbed_accelerator>(
            device, device_disturbance{.leaves_out = std::move(leaves_out)}));
  };
  std::mutex guard;
  std::set<stream_pair> waits;
  train_without(std::make_shared<faked_accelerator>(), [&](int of, int by) {
    const std::scoped_lock lock(guard);
    if (std::max(of, by) >= streams_of_rank)  // made when they are needed
      waits.emplace(of, by);
    return false;
  });
  // Computing waits for reloads; both copies for computing; reloads for
  // offloads.
  CHECK(waits.size() == 4);
  for (const auto& left_out : waits) {
    CAPTURE(left_out.first, left_out.second);
    const auto device = std::make_shared<faked_accelerator>();
    train_without(device, [&](int of, int by) {
      return stream_pair{of, by} == left_out;
    });
    CHECK_FALSE(device->races().empty());
  }
}

TEST_CASE("a plan that offloads is run as it is, and recordings are refused") {
  const auto what = all({.schedule = "gpipe"});
  auto options = options_for(what);
  const auto own = std::make_shared<const plan>(
    offloaded(compile(options.schedule), {.fraction = 0.5}));
  options.plan = own;
  {
    trainer run(model_for(what), options);
    CHECK(run.plan() == *own);
    CHECK_THROWS_MATCHES(
      run.replan(make_schedule("1f1b", shape_of(what))), error,
      says("the plan that was given has its own OFFLOAD and RELOAD"));
    run.replan(schedule_of(*own));
    run.step(small_text());
    CHECK(run.plan() == *own);
  }
  options.plan = nullptr;
  options.cuda_graphs = true;
  CHECK_THROWS_MATCHES(
    trainer(model_for(what), options), error,
    Message("cuda_graphs records steps whose tensors stay where they are; "
            "don't offload activations, or turn cuda_graphs off"));
  options.cuda_graphs = false;
  options.offload.of_stage = {{7, 1}};
  CHECK_THROWS_MATCHES(
    trainer(model_for(what), options), error,
    Message("can't offload activations of stage 7: there are 2 stages"));
}
