#include <algorithm>

#include "troupe/schedules/catalogue.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/schedules/rules.hpp"

namespace troupe::catalogue {

namespace {

// The same lanes without the microbatches from `count` on.
schedule first_microbatches(schedule whole, std::int32_t count) {
  whole.microbatches = count;
  for (auto& lane : whole.lanes)
    std::erase_if(lane, [=](const op& op) { return op.microbatch >= count; });
  return whole;
}

// "Pipeline parallelism with controllable memory" (Qi et al., 2024). A
// microbatch goes along the first half of the V at one stage every `step`,
// along the second at one every 1; its backward does the same after a `gap`.
// The next microbatch follows 6 later: three ops of two stages. Ranks keep this
// order and its memory, and start as early as they can.
schedule building_blocks(const schedule_shape& shape, std::int32_t step,
                         std::int32_t gap, std::int32_t chunks) {
  constexpr std::int32_t period = 6;
  const auto last = 2 * shape.ranks - 1;
  const auto forward = [=](std::int32_t stage) {
    return step * std::min(stage, shape.ranks - 1)
           + std::max(0, stage - shape.ranks + 1);
  };
  const auto backward = [=](std::int32_t stage) {
    return forward(last) + 1 + gap + forward(last - stage);
  };
  return build_by_rules(
    placement::v_shaped(shape.ranks), shape.microbatches,
    {.in_flight_limit = [=](auto) { return chunks; },
     .stage_limit =
       [=](auto stage) {
         return (backward(stage) - forward(stage) + period - 1) / period;
       },
     .start =
       [=](const op& what) {
         return what.microbatch * period
                + (is_backward(what.kind) ? backward(what.stage)
                                          : forward(what.stage));
       },
     .prefer = {preference::weight_backward_last, preference::early_start},
     .split_backward = true});
}

}  // namespace

// Zero bubble pipeline parallelism (Qi et al., 2023): the memory of 1F1B.
schedule zb_h1(const schedule_shape& shape) {
  return after_warm_up(shape, 1, true);
}

// The same paper: twice the warm-up, so that a rank is never idle between its
// first op and its last.
schedule zb_h2(const schedule_shape& shape) {
  return after_warm_up(shape, 2, true);
}

// Megatron's interleaved 1F1B with the split backwards of Qi et al., 2023, and
// half its warm-up, as in PyTorch.
schedule interleaved_zb(const schedule_shape& shape) {
  return after_warm_up(shape, 1, true);
}

// ZB-V (Qi et al., 2023): the V returns each microbatch to the rank that began
// it. 2P - 1 microbatches fill it; fewer run in the same order.
schedule zb_v(const schedule_shape& shape) {
  const auto fill = std::max(shape.microbatches, 2 * shape.ranks - 1);
  const auto whole = schedule::build(
    placement::v_shaped(shape.ranks), fill, [](lane_builder& rank) {
      const auto ranks_left = rank.distance_to_last() + 1;
      rank.split_backwards(0);
      rank.forward(chunk(0), first(2 * ranks_left - 1));
      for (std::int32_t i = 0; i < rank.rank(); ++i) {
        rank.forward(chunk(1), first(1));
        rank.forward(chunk(0), first(1));
      }
      for (std::int32_t i = 0; i < ranks_left; ++i) {
        rank.forward(chunk(1), first(1));
        rank.backward(chunk(1), first(1));
      }
      while (rank.forwards_left(chunk(1)) > 0) {
        rank.forward(chunk(0), first(1));
        rank.backward(chunk(0), first(1));
        rank.forward(chunk(1), first(1));
        rank.backward(chunk(1), first(1));
      }
      for (std::int32_t i = 0; i < rank.rank(); ++i) {
        rank.input_backward(chunk(0));
        rank.input_backward(chunk(1));
      }
      for (std::int32_t i = 0; i < ranks_left; ++i) {
        rank.input_backward(chunk(0));
        rank.weight_backward(first(1));
      }
      rank.weight_backward(rest());
    });
  return first_microbatches(whole, shape.microbatches);
}

// V-Half of "controllable memory".
schedule v_half(const schedule_shape& shape) {
  return building_blocks(shape, 2, 3, 2 * ((shape.ranks + 2) / 2));
}

// V-Min of "controllable memory". The gap keeps ops of different microbatches
// from meeting on a rank.
schedule v_min(const schedule_shape& shape) {
  return building_blocks(shape, 1, shape.ranks % 3 == 0 ? 2 : 0,
                         2 * ((shape.ranks + 4) / 3));
}

}  // namespace troupe::catalogue
