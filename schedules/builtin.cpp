#include "troupe/schedules/builtin.hpp"

#include <algorithm>
#include <string>

#include "troupe/base/error.hpp"
#include "troupe/schedules/lane_builder.hpp"

namespace troupe {

namespace {

// GPipe (Huang et al., 2019).
schedule gpipe(const schedule_shape& shape) {
  return schedule::build(
    shape,
    [](lane_builder& rank) {
      rank.forward(rest());
      rank.backward(rest());
    },
    "gpipe");
}

// PipeDream-flush (Narayanan et al., 2021), known as 1F1B.
schedule one_f_one_b(const schedule_shape& shape) {
  return schedule::build(
    shape,
    [](lane_builder& rank) {
      rank.forward(first(rank.distance_to_last()));
      rank.repeat_one_forward_one_backward();
      rank.backward(rest());
    },
    "1f1b");
}

// Twice the warm-up of 1F1B: a message may take one whole op to travel.
schedule eager_1f1b(const schedule_shape& shape) {
  return schedule::build(
    shape,
    [](lane_builder& rank) {
      rank.forward(first(2 * rank.distance_to_last()));
      rank.repeat_one_forward_one_backward();
      rank.backward(rest());
    },
    "eager_1f1b");
}

// At least `ranks` microbatches a group, if there are that many: enough to keep
// all ranks busy until the group's first one returns.
std::vector<std::int32_t> groups_to_fill(const schedule_shape& shape) {
  return even_groups(shape.microbatches,
                     std::max(1, shape.microbatches / shape.ranks));
}

// Megatron's interleaved 1F1B (Narayanan et al., 2021), with groups of even
// size instead of a short last one, which could deadlock.
schedule interleaved_1f1b(const schedule_shape& shape) {
  const auto groups = groups_to_fill(shape);
  return schedule::build(
    shape,
    [&](lane_builder& rank) {
      rank.in_groups(groups);
      rank.forward(first((rank.stages_here() - 1) * groups.front()
                         + 2 * rank.distance_to_last()));
      rank.repeat_one_forward_one_backward();
      rank.backward(rest());
    },
    "interleaved_1f1b");
}

// Breadth-first pipeline parallelism (Lamy-Poirier, 2023).
schedule breadth_first(const schedule_shape& shape) {
  return schedule::build(
    shape,
    [](lane_builder& rank) {
      rank.forward(rest());
      rank.backward(rest());
    },
    "breadth_first");
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
  return schedule::build(
    shape,
    [&](lane_builder& rank) {
      rank.in_groups(groups);
      for (const auto size : groups) {
        rank.forward(first(size * rank.stages_here()));
        rank.backward(first(size * rank.stages_here()));
      }
    },
    "depth_first");
}

// Validation and inference.
schedule forward_only(const schedule_shape& shape) {
  const auto groups = groups_to_fill(shape);
  return schedule::build(
    shape,
    [&](lane_builder& rank) {
      rank.in_groups(groups);
      rank.forward(rest());
    },
    "forward_only");
}

constexpr auto any_shape = "any P, V and m";
constexpr auto one_stage = "any P and m; V = 1";

void check_shape(const builtin_schedule& row, const schedule_shape& shape) {
  const auto check = [&](const char* what, std::int32_t value,
                         std::int32_t most) {
    if (value < 1 || value > most)
      fail(error_code::invalid_argument,
           "{}: {} must be {}, but is {}: the nearest legal value is {}",
           row.name, what,
           most == 1           ? "1"
           : most == INT32_MAX ? "at least 1"
                               : fmt::format("in 1..{}", most),
           value, std::clamp(value, 1, most));
  };
  constexpr std::int32_t most_ranks = 1 << 16;
  constexpr std::int32_t most_slots = 1 << 22;  // takes some seconds to plan
  check("ranks", shape.ranks, most_ranks);
  check("stages per rank", shape.stages_per_rank, row.most_stages_per_rank);
  check("stages per rank", shape.stages_per_rank, most_slots / shape.ranks);
  check("microbatches", shape.microbatches,
        most_slots / (shape.ranks * shape.stages_per_rank));
}

}  // namespace

const std::vector<builtin_schedule>& builtin_schedules() {
  static const std::vector<builtin_schedule> table{
    {"gpipe", "all forwards, then all backwards", one_stage, gpipe, 1},
    {"1f1b", "one forward, one backward, after a warm-up", one_stage,
     one_f_one_b, 1},
    {"eager_1f1b", "1f1b with twice the warm-up: hides messages", one_stage,
     eager_1f1b, 1},
    {"interleaved_1f1b", "1f1b over several stages a rank", any_shape,
     interleaved_1f1b},
    {"breadth_first", "all microbatches of a stage before its next stage",
     any_shape, breadth_first},
    {"depth_first", "groups of --breadth microbatches, one after the other",
     any_shape, depth_first, INT32_MAX, true},
    {"forward_only", "validation and inference", any_shape, forward_only},
  };
  return table;
}

schedule make_schedule(std::string_view name, const schedule_shape& shape) {
  std::string known;
  for (const auto& row : builtin_schedules()) {
    if (row.name == name) {
      check_shape(row, shape);
      return row.make(shape);
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  fail(error_code::unknown_schedule,
       "unknown schedule '{}': the known ones are {}; or give a CSV file", name,
       known);
}

}  // namespace troupe
