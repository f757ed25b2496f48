#include "../noted_ops.hpp"
#include "../step_trace.hpp"

#include "one_gpu.hpp"
#include "troupe/engine/device/rank_device.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Seconds, longer than the host takes to launch a step of the small model.
constexpr double long_while = 2;

}  // namespace

// A thread's first matrix product on a stream waits for the device, as cuBLAS
// allocates its workspace. After so many steps each worker has run each rank.
TEST_CASE("the host gives a GPU a whole step without a wait") {
  constexpr int warm_up = 20;
  const auto gpu = one_gpu();
  check_host_goes_on({.microbatches = 8}, gpu, long_while, warm_up);
  check_host_goes_on({.schedule = "gpipe", .ranks = 1}, gpu, long_while,
                     warm_up);
  check_host_goes_on(
    {.schedule = "interleaved_1f1b", .stages_per_rank = 2, .clip = 0.5}, gpu,
    long_while, warm_up);
  check_host_goes_on({.recompute = true}, gpu, long_while, warm_up);
  check_host_goes_on({.autocast = at::kBFloat16}, gpu, long_while, warm_up);
}

// With events alone: 64 ops of the small model are fewer launches than the
// 1,024 or so that the driver holds.
TEST_CASE("the host waits when it is 64 ops ahead of a GPU, and not before") {
  rank_device rank(one_gpu(), {});
  delay(*rank.hardware(), rank.compute(), 0);  // loads the kernel
  rank.compute().drain();
  delay(*rank.hardware(), rank.compute(), 0.2);
  const event_handle first = rank.compute().record();
  rank.launched(first);
  for (int i = 1; i < 64; ++i)
    rank.launched(rank.compute().record());
  CHECK_FALSE(first->reached());
  rank.launched(rank.compute().record());
  CHECK(first->reached());
}

TEST_CASE("a GPU's ops are timed in the order in which they depend") {
  const auto gpu = one_gpu();
  const auto trace = trace_step({.microbatches = 8}, gpu, 0.05);
  CHECK(disordered_ops(trace) == std::vector<std::string>{});
}

TEST_CASE("the ops of an overlapped pair run at once on a GPU") {
  const auto gpu = one_gpu();
  const small_case what{.schedule = "dualpipe_v", .stages_per_rank = 2};
  CHECK(pairs_at_once(note_step(what, gpu, {}, 0.02)) >= 2);
  CHECK(pairs_at_once(note_step(what, gpu, {.pairs = false}, 0.02)) == 0);
}
