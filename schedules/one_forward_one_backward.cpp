#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/schedules/catalogue.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/schedules/rules.hpp"

namespace troupe::catalogue {

namespace {

// At least `ranks` microbatches a group, if there are that many: enough to keep
// all ranks busy until the group's first one returns.
std::vector<std::int32_t> groups_to_fill(const schedule_shape& shape) {
  return even_groups(shape.microbatches,
                     std::max(1, shape.microbatches / shape.ranks));
}

}  // namespace

// GPipe (Huang et al., 2019), and with several stages a rank breadth-first
// pipeline parallelism (Lamy-Poirier, 2023).
schedule all_forwards_first(const schedule_shape& shape) {
  return schedule::build(shape, [](lane_builder& rank) {
    rank.forward(rest());
    rank.backward(rest());
  });
}

schedule after_warm_up(const schedule_shape& shape, std::int32_t depth,
                       bool splits) {
  const auto groups = groups_to_fill(shape);
  return schedule::build(shape, [&](lane_builder& rank) {
    rank.in_groups(groups);
    if (splits)
      rank.split_backwards(depth * rank.rank());
    rank.forward(first((rank.stages_here() - 1) * groups.front()
                       + depth * rank.distance_to_last() + rank.slices() - 1));
    rank.repeat_one_forward_one_backward();
    rank.backward(rest());
    rank.weight_backward(rest());
  });
}

// PipeDream-flush (Narayanan et al., 2021), known as 1F1B. Over slices of the
// sequence, Seq1F1B (Sun et al., 2024): a slice's backward needs those of the
// later slices, so the last one's comes first.
schedule one_f_one_b(const schedule_shape& shape) {
  return after_warm_up(shape, 1);
}

// PipeDream (Narayanan et al., 2019): each stage updates after each of its
// backwards. A forward reads the newest parameters, and its backward the same
// ones again, which are kept until then.
schedule weight_stash(const schedule_shape& shape) {
  auto lanes = one_f_one_b(shape);
  lanes.update = {.every = 1, .lag = update_rule::newest};
  return lanes;
}

// PipeDream-2BW (Narayanan et al., 2021): each stage updates after a group of
// microbatches, at least as many as there are ranks; all forwards of a group
// read the parameters of one update before, so that there are two versions.
schedule two_bw(const schedule_shape& shape) {
  auto lanes = one_f_one_b(shape);
  const auto least = std::min(shape.ranks, shape.microbatches);
  const auto group = shape.breadth == 0 ? least : shape.breadth;
  if (group < least || group > shape.microbatches)
    fail(error_code::invalid_argument,
         "two_bw: a group (--breadth) must lie in {}..{}, from the ranks to "
         "the microbatches, but is {}: the nearest legal value is {}",
         least, shape.microbatches, group,
         std::clamp(group, least, shape.microbatches));
  lanes.update = {.every = group, .lag = 1};
  return lanes;
}

// Twice the warm-up of 1F1B: a message may take one whole op to travel.
schedule eager_1f1b(const schedule_shape& shape) {
  return after_warm_up(shape, 2);
}

// Megatron's interleaved 1F1B (Narayanan et al., 2021), with groups of even
// size instead of a short last one, which could deadlock.
schedule interleaved_1f1b(const schedule_shape& shape) {
  return after_warm_up(shape, 2);
}

// Groups of `breadth` microbatches, each forward and backward before the
// next; all of them in one group is breadth_first.
schedule depth_first(const schedule_shape& shape) {
  const auto breadth = shape.breadth != 0
                         ? shape.breadth
                         : std::min(shape.ranks, shape.microbatches);
  if (breadth < 1 || breadth > shape.microbatches)
    fail(error_code::invalid_argument,
         "depth_first: breadth must lie in 1..{} (the microbatches), but is "
         "{}: the nearest legal value is {}",
         shape.microbatches, breadth,
         std::clamp(breadth, 1, shape.microbatches));
  const auto groups = groups_of(shape.microbatches, breadth);
  return schedule::build(shape, [&](lane_builder& rank) {
    rank.in_groups(groups);
    for (const auto size : groups) {
      rank.forward(first(size * rank.stages_here()));
      rank.backward(first(size * rank.stages_here()));
    }
  });
}

// Hanayo (Liu et al., 2023): stages lie in waves. Of the ops that are ready, a
// rank runs the one that would start first if a forward took 2, a backward 6,
// and a microbatch entered every 3 V, which is a rank's work for one.
schedule hanayo(const schedule_shape& shape) {
  const auto stages = shape.ranks * shape.stages_per_rank;
  const auto start = [=](const op& what) {
    return std::int64_t{3} * shape.stages_per_rank * what.microbatch
           + (is_backward(what.kind)
                ? 2 * stages + 6 * (stages - 1 - what.stage)
                : 2 * what.stage);
  };
  return build_by_rules(placement::waves(shape.ranks, stages),
                        shape.microbatches,
                        {.start = start, .prefer = {preference::early_start}});
}

// Validation and inference.
schedule forward_only(const schedule_shape& shape) {
  const auto groups = groups_to_fill(shape);
  return schedule::build(shape, [&](lane_builder& rank) {
    rank.in_groups(groups);
    rank.forward(rest());
  });
}

}  // namespace troupe::catalogue
