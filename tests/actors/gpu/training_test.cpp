#include "../device_trainings.hpp"

#include <ATen/ops/zeros.h>

#include "one_gpu.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// For losses of about 3.5: three steps in fp32 with other orders of additions.
constexpr double rounding = 1e-3;
/// bf16 has 8 bits.
constexpr double coarse_rounding = 5e-2;

/// With momentum instead of AdamW, which turns the rounding of a gradient near
/// zero into a whole step.
small_case with_sgd(small_case what) {
  what.use_sgd = true;
  return what;
}

const device_disturbance rough{.every = 2, .delay = 0.0005, .blocks = 6};

}  // namespace

TEST_CASE("every schedule trains on a GPU what it does on the CPU") {
  const auto gpu = one_gpu();
  for (const auto& each : trained_schedules()) {
    const auto what = with_sgd(each);
    INFO(describe(what));
    CHECK(distance(train(what, nullptr), train(what, gpu)) < rounding);
  }
}

TEST_CASE("replicas and recomputation train the same on a GPU and on the CPU") {
  const auto gpu = one_gpu();
  for (const auto& what :
       {small_case{.data_parallel = 2, .use_sgd = true, .clip = 0.5},
        small_case{.use_sgd = true, .recompute = true},
        small_case{.ranks = 4, .microbatches = 8, .use_sgd = true}}) {
    INFO(describe(what));
    CHECK(distance(train(what, nullptr), train(what, gpu)) < rounding);
  }
}

TEST_CASE("the plain loop trains on a GPU what it does on the CPU") {
  const auto gpu = one_gpu();
  const small_case what{.data_parallel = 2, .use_sgd = true, .clip = 0.5};
  CHECK(distance(train_plainly(what, nullptr), train_plainly(what, gpu))
        < rounding);
}

TEST_CASE("bf16 on a GPU is near that of the CPU, and no fp32") {
  const auto gpu = one_gpu();
  small_case what{.use_sgd = true, .autocast = at::kBFloat16};
  const auto halves = train(what, gpu);
  CHECK(distance(train(what, nullptr), halves) < coarse_rounding);
  what.autocast.reset();
  CHECK(distance(train(what, gpu), halves) > 1e-6);
}

TEST_CASE("a GPU trains the same bits from run to run, the plain loop's") {
  const auto gpu = one_gpu();
  const equal_bits from_now_on;
  for (const auto& what : trained_schedules()) {
    INFO(describe(what));
    const auto once = train(what, gpu);
    CHECK(different_bits(once, train(what, gpu)) == "");
    CHECK(different_bits(once, train_plainly(what, gpu)) == "");
  }
}

TEST_CASE("replicas, recomputation and bf16 have the plain loop's bits too") {
  const auto gpu = one_gpu();
  const equal_bits from_now_on;
  for (const auto& what : {small_case{.data_parallel = 2, .clip = 0.5},
                           small_case{.use_sgd = true, .recompute = true},
                           small_case{.ranks = 4, .microbatches = 8},
                           small_case{.autocast = at::kBFloat16}}) {
    INFO(describe(what));
    CHECK(different_bits(train(what, gpu), train_plainly(what, gpu)) == "");
  }
}

TEST_CASE("each overlap can be switched off on a GPU without changing a bit") {
  const auto gpu = one_gpu();
  const equal_bits from_now_on;
  const small_case what{.data_parallel = 2, .clip = 0.5};
  const auto all = train(what, gpu);
  for (int off = 1; off < 8; ++off)
    CHECK(different_bits(all, train(what, gpu,
                                    {.data = (off & 1) == 0,
                                     .reduce = (off & 2) == 0,
                                     .transfers = (off & 4) == 0}))
          == "");
  const small_case paired{
    .schedule = "dualpipe_v", .stages_per_rank = 2, .clip = 0.5};
  CHECK(different_bits(train(paired, gpu), train(paired, gpu, {.pairs = false}))
        == "");
}

TEST_CASE("delays and overwritten memory change no bit on a GPU") {
  const auto gpu = one_gpu();
  const equal_bits from_now_on;
  for (const auto& what : trained_schedules())
    check_disturbed(what, gpu, rough);
  check_disturbed({.data_parallel = 2, .clip = 0.5}, gpu, rough);
  check_disturbed({.data_parallel = 3, .recompute = true}, gpu, rough);
}

TEST_CASE("a disturbed GPU shows where an event is missing") {
  disturbed_accelerator gpu(one_gpu(), {.every = 1, .delay = 0.2});
  const auto writer = gpu.make_stream(stream_priority::normal);
  const auto reader = gpu.make_stream(stream_priority::normal);
  at::Tensor buffer;
  {
    const auto scope = writer->enter();
    buffer = at::zeros({1000}, at::device(writer->device()));
  }
  writer->drain();
  {  // allocates the pinned memory for the copies below, which may wait
    const auto one = to_host(buffer, *reader), other = to_host(buffer, *reader);
    reader->drain();
  }
  {
    const auto scope = writer->enter(), twice = writer->enter();
    buffer.fill_(7);
  }
  const auto filled = writer->record();
  const auto early = to_host(buffer, *reader);  // delayed half as long
  reader->wait_for(*filled);
  const auto late = to_host(buffer, *reader);
  late.ready->wait();
  CHECK(late.tensor[0].item<float>() == 7);
  CHECK(early.tensor[0].item<float>() == 0);
}
