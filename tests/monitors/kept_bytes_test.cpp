// Monitors that keep records of past steps report how many bytes, and are
// detached beyond their limit.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "../allocated_bytes.hpp"
#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "recording_sink.hpp"
#include "troupe/monitors/stability.hpp"
#include "troupe/monitors/tensors/overflow.hpp"
#include "troupe/monitors/tensors/retro.hpp"
#include "troupe/monitors/timing/timeline.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Monitors that keep many records, with limits that are reached soon.
std::vector<monitor> hoarders(const temporary_folder& folder,
                              std::int64_t limit) {
  const auto nowhere = callback_sink({});
  std::vector<monitor> all{
    retro_monitor(
      {.folder = folder / "", .steps = 1'000'000'000, .nonfinite = false},
      nowhere),
    overflow_monitor({.frames = 1000}, nowhere),
    stability_monitor({.window = 1'000'000'000, .rolling = 1'000'000'000},
                      nowhere),
    timeline_monitor({.trace = folder / "trace", .steps = 1'000'000'000})};
  for (auto& each : all)
    each.limits.held_bytes = limit;
  return all;
}

}  // namespace

TEST_CASE("a monitor that keeps every step is detached at its limit") {
  const temporary_folder folder;
  for (auto& each : hoarders(folder, 4000)) {
    INFO(each.name);
    auto options = options_g(2, 1);
    options.numerics.optimizer = sgd{.learning_rate = 0};
    trainer run(model_g(), options);
    const auto given_up = std::make_shared<std::atomic<bool>>(false);
    each.given_up = [given_up](const std::string&) { *given_up = true; };
    run.attach(each);
    const auto source = source_g(1);
    for (int step = 0; step < 2000 && !*given_up; ++step)
      run.step(source);
    CHECK(*given_up);
  }
}

TEST_CASE("what a monitor says that it keeps is about what it allocates") {
  constexpr int steps = 3000;
  const temporary_folder folder;
  auto retro = retro_monitor(
    {.folder = folder / "", .steps = 1'000'000, .nonfinite = false},
    callback_sink({}));
  tensors_event op{{.step = 1}, false, 1, std::vector<tensor_record>(16)};
  for (auto& record : op.tensors)
    record.owner =
      std::make_shared<const tensor_owner>(tensor_owner{"fc", "linear"});
  const auto before = allocated_bytes();
  for (int step = 1; step <= steps; ++step) {
    retro.see(op);
    retro.see(step_with(step, 1.0));
  }
  const auto counted = static_cast<double>(retro.kept_bytes());
  const auto allocated = static_cast<double>(allocated_bytes() - before);
  CHECK(counted > 0.7 * allocated);
  CHECK(counted < 1.1 * allocated);
  retro = {};
  CHECK(allocated_bytes() - before < 100'000);
}
