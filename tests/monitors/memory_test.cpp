// The memory of a run does not grow with its steps.
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <thread>

#include "../allocated_bytes.hpp"
#include "fixture_g.hpp"
#include "recording_sink.hpp"
#include "troupe/monitors/stability.hpp"
#include "troupe/monitors/tensors/gap.hpp"
#include "troupe/monitors/tensors/overflow.hpp"
#include "troupe/monitors/timing/throughput.hpp"
#include "troupe/monitors/timing/timeline.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// The allocated bytes between two steps, once the monitors have processed
/// their events: when they no longer change.
std::int64_t settled_bytes() {
  using clock = std::chrono::steady_clock;
  auto least = allocated_bytes();
  const auto end = clock::now() + std::chrono::seconds(10);
  auto since = clock::now();
  while (clock::now() < end
         && clock::now() - since < std::chrono::milliseconds(100)) {
    std::this_thread::yield();
    if (const auto now = allocated_bytes(); now < least) {
      least = now;
      since = clock::now();
    }
  }
  return least;
}

/// The bytes per step that stay allocated in the second half of a run. Resident
/// memory would say less, as the allocator's caches grow for a long time, up to
/// their limit.
double kept_per_step(trainer& run, int steps) {
  const auto source = source_g(1);
  const auto after = [&](int more) {
    for (int i = 0; i < more; ++i)
      run.step(source);
    return settled_bytes();
  };
  const auto half = after(steps / 2);
  return static_cast<double>(after(steps / 2) - half) / (steps / 2);
}

std::unique_ptr<trainer> watched_run() {
  auto options = options_g(2, 1);
  options.numerics.optimizer =
    sgd{.learning_rate = 0};  // the loss stays finite
  auto run = std::make_unique<trainer>(model_g(), options);
  const auto nowhere = callback_sink({});
  run->attach(gap_monitor({}, nowhere));
  run->attach(overflow_monitor({}, nowhere));
  run->attach(stability_monitor({.rolling = 500}, nowhere));
  run->attach(throughput_monitor({}, nowhere));
  run->attach(timeline_monitor({}));
  return run;
}

}  // namespace

TEST_CASE("memory that is allocated is counted") {
  const auto before = allocated_bytes();
  const std::vector<char> own(1 << 20);
  asm volatile("" : : "r"(own.data()) : "memory");  // clang would leave it out
  CHECK(allocated_bytes() - before >= std::ssize(own));
}

TEST_CASE("a run keeps nothing of its steps") {
  trainer run(model_g(), options_g(2, 1));
  CHECK(kept_per_step(run, 8000) < 4);
}

TEST_CASE("nor do its monitors") {
  CHECK(kept_per_step(*watched_run(), 8000) < 4);
}

TEST_CASE("a long run keeps nothing of its steps", "[.full]") {
  trainer run(model_g(), options_g(2, 1));
  CHECK(kept_per_step(run, 100'000) < 0.5);
}

TEST_CASE("nor do the monitors of a long run", "[.full]") {
  CHECK(kept_per_step(*watched_run(), 100'000) < 0.5);
}
