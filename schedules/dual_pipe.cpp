#include "troupe/schedules/catalogue.hpp"
#include "troupe/schedules/lane_builder.hpp"

namespace troupe::catalogue {

namespace {

void repeat(std::int32_t times, const auto& run) {
  for (std::int32_t i = 0; i < times; ++i)
    run();
}

// DeepSeek's order of two streams of microbatches, which come from both sides
// of a rank: `early` is the chunk of the stream that reaches it first, `late`
// of the other. They meet after `ranks` ranks, `distance` ranks from this one.
void run_both(lane_builder& rank, chunk early, chunk late,
              std::int32_t distance, std::int32_t ranks) {
  const auto passed = ranks - distance;
  const auto backward_split = [&](chunk which) {
    rank.input_backward(which);
    rank.weight_backward(first(1));
  };
  rank.forward(early, first(2 * distance));
  repeat(passed, [&] {
    rank.forward(early);
    rank.forward(late);
  });
  repeat(distance, [&] {
    backward_split(late);
    rank.forward(late);
  });
  // The first pair of the rank at the meeting would wait for both inputs.
  if (distance == 0) {
    rank.forward(early);
    rank.backward(late);
    rank.overlap(late, early);
  }
  while (rank.forwards_left(early) > 0) {
    rank.overlap(early, late);
    rank.overlap(late, early);
  }
  repeat(distance, [&] {
    rank.backward(late);
    rank.overlap(late, early);
  });
  // The second half of these leave their weight gradients for later.
  for (std::int32_t i = 0; i < 2 * passed; ++i) {
    const auto which = i % 2 == 0 ? late : early;
    i < passed ? rank.backward(which) : rank.input_backward(which);
  }
  repeat(distance, [&] {
    rank.weight_backward(first(1));
    rank.input_backward(early);
  });
  rank.weight_backward(rest());
}

}  // namespace

// DeepSeek's DualPipe cut in half: one copy of the stages in a V, both streams
// on the same microbatches.
schedule dualpipe_v(const schedule_shape& shape) {
  return schedule::build(placement::v_shaped(shape.ranks), shape.microbatches,
                         [](lane_builder& rank) {
                           run_both(rank, chunk(0), chunk(1),
                                    rank.distance_to_last(), rank.ranks());
                         });
}

// DualPipe (DeepSeek-V3 technical report, 2024): microbatches enter at both
// ends of the pipeline, each end with its own copy of the stages.
schedule dualpipe(const schedule_shape& shape) {
  return schedule::build(placement::two_directions(shape.ranks),
                         shape.microbatches, [](lane_builder& rank) {
                           const auto half = rank.ranks() / 2;
                           const bool first_half = rank.rank() < half;
                           const auto distance_to_end =
                             first_half ? rank.rank() : rank.distance_to_last();
                           run_both(rank, chunk(first_half ? 0 : 1),
                                    chunk(first_half ? 1 : 0),
                                    half - 1 - distance_to_end, half);
                         });
}

}  // namespace troupe::catalogue
