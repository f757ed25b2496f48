#include "troupe/schedules/catalogue.hpp"
#include "troupe/schedules/lane_builder.hpp"

namespace troupe::catalogue {

namespace {

void repeat(std::int32_t times, const auto& run) {
  for (std::int32_t i = 0; i < times; ++i)
    run();
}

// DeepSeek's order of two streams of microbatches, which come from both sides
// of a rank: `near` is the chunk of the stream that reaches it first, `far` of
// the other. They meet after `depth` ranks, `ahead` ranks from this one.
void run_both(lane_builder& rank, std::int32_t near, std::int32_t far,
              std::int32_t ahead, std::int32_t depth) {
  const auto behind = depth - ahead;
  const auto backward_split = [&](std::int32_t chunk) {
    rank.input_backward(chunk);
    rank.weight_backward(first(1));
  };
  rank.forward(near, first(2 * ahead));
  repeat(behind, [&] {
    rank.forward(near);
    rank.forward(far);
  });
  repeat(ahead, [&] {
    backward_split(far);
    rank.forward(far);
  });
  // The first pair of the rank at the meeting would wait for both inputs.
  if (ahead == 0) {
    rank.forward(near);
    rank.backward(far);
    rank.overlap(far, near);
  }
  while (rank.forwards_left(near) > 0) {
    rank.overlap(near, far);
    rank.overlap(far, near);
  }
  repeat(ahead, [&] {
    rank.backward(far);
    rank.overlap(far, near);
  });
  // The second half of these leave their weight gradients for later.
  for (std::int32_t i = 0; i < 2 * behind; ++i) {
    const auto chunk = i % 2 == 0 ? far : near;
    i < behind ? rank.backward(chunk) : rank.input_backward(chunk);
  }
  repeat(ahead, [&] {
    rank.weight_backward(first(1));
    rank.input_backward(near);
  });
  rank.weight_backward(rest());
}

}  // namespace

// DeepSeek's DualPipe cut in half: one copy of the stages in a V, both streams
// on the same microbatches.
schedule dualpipe_v(const schedule_shape& shape) {
  return schedule::build(
    placement::v_shaped(shape.ranks), shape.microbatches,
    [](lane_builder& rank) {
      run_both(rank, 0, 1, rank.distance_to_last(), rank.ranks());
    },
    "dualpipe_v");
}

// DualPipe (DeepSeek-V3 technical report, 2024): microbatches enter at both
// ends of the pipeline, each end with its own copy of the stages.
schedule dualpipe(const schedule_shape& shape) {
  return schedule::build(
    placement::two_directions(shape.ranks), shape.microbatches,
    [](lane_builder& rank) {
      const auto half = rank.ranks() / 2;
      const bool first_half = rank.rank() < half;
      const auto outside = first_half ? rank.rank() : rank.distance_to_last();
      run_both(rank, first_half ? 0 : 1, first_half ? 1 : 0, half - 1 - outside,
               half);
    },
    "dualpipe");
}

}  // namespace troupe::catalogue
