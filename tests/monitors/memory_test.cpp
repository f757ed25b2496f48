// What a run keeps of its steps: nothing that grows with them.
#include <malloc.h>

#include <catch2/catch_test_macros.hpp>

#include "fixture_g.hpp"
#include "recording_sink.hpp"
#include "troupe/monitors/gap.hpp"
#include "troupe/monitors/overflow.hpp"
#include "troupe/monitors/throughput.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Bytes that are allocated, by all threads; 0 under a sanitizer.
double allocated() {
  const auto now = ::mallinfo2();
  return static_cast<double>(now.uordblks + now.hblkhd);
}

double growth_per_step(trainer& run) {
  constexpr int warm_up = 1000, steps = 4000;
  const auto source = source_g(1);
  for (int i = 0; i < warm_up; ++i)
    run.step(source);
  const auto before = allocated();
  for (int i = 0; i < steps; ++i)
    run.step(source);
  return (allocated() - before) / steps;
}

}  // namespace

TEST_CASE("a run keeps nothing of its steps") {
  trainer run(model_g(), options_g(2, 1));
  CHECK(growth_per_step(run) < 20);
}

TEST_CASE("nor do its monitors") {
  auto options = options_g(2, 1);
  options.optimizer = sgd{.learning_rate = 0};  // stays finite
  trainer run(model_g(), options);
  const auto nowhere = callback_sink({});
  run.attach(gap_monitor({}, nowhere));
  run.attach(overflow_monitor({}, nowhere));
  run.attach(throughput_monitor(run.shared_plan(), {}, nowhere));
  CHECK(growth_per_step(run) < 20);
}
