#include "troupe/schedules/builtin.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <string>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/schedules/catalogue.hpp"
#include "troupe/schedules/csv.hpp"

namespace troupe {

namespace {

constexpr auto any_shape = "any P, V and m";
constexpr auto one_stage = "any P and m; V = 1";
constexpr auto two_stages = "any P and m; V = 2";

// "in 1..8", "even and in 2..8", or "2" if there is no other.
std::string text_of(const size_rule& rule) {
  if (rule.least == rule.most)
    return std::to_string(rule.least);
  return fmt::format("{}in {}..{}", rule.even ? "even and " : "", rule.least,
                     rule.most);
}

void check(const builtin_schedule& row, const char* what, std::int32_t value,
           const size_rule& rule, const std::string& reason = {}) {
  const auto nearest = std::clamp(value, rule.least, rule.most);
  const bool fits = !rule.even || nearest % 2 == 0;
  if (nearest == value && fits)
    return;
  std::string flag = what;
  std::ranges::replace(flag, ' ', '-');
  fail(error_code::invalid_argument,
       "{}: {} must be {}{}, not {}: the nearest legal {} (--{})", row.name,
       what, text_of(rule), reason, value,
       fits ? fmt::format("value is {}", nearest)
            : fmt::format("values are {} and {}", nearest - 1, nearest + 1),
       flag);
}

constexpr std::int32_t most_ranks = 1 << 16;
constexpr std::int32_t most_slots = 1 << 22;  // takes some seconds to plan

// The rule with a lower upper limit.
size_rule limited(size_rule rule, std::int32_t most) {
  rule.most = std::min(rule.most, most);
  if (rule.even)
    rule.most -= rule.most % 2;
  return rule;
}

void check_shape(const builtin_schedule& row, const schedule_shape& shape) {
  check(row, "ranks", shape.ranks, limited(row.ranks, most_ranks));
  auto slots = most_slots / shape.ranks;
  check(row, "stages per rank", shape.stages_per_rank,
        limited(row.stages_per_rank, slots));
  slots /= shape.stages_per_rank;
  check(row, "slices", shape.slices,
        {.most = row.has_slices ? std::min(slots, INT16_MAX) : 1});
  slots /= shape.slices;
  auto microbatches = limited(row.microbatches, slots);
  if (row.microbatches_for_a_rank > 0)
    microbatches.least = row.microbatches_for_a_rank * shape.ranks;
  check(row, "microbatches", shape.microbatches, microbatches,
        row.microbatches_for_a_rank > 0
          ? fmt::format(" (at least {} P)", row.microbatches_for_a_rank)
          : "");
}

constexpr size_rule one{.most = 1};
constexpr std::int32_t usual_chunks = 2;  // stages per rank
constexpr std::int32_t usual_slices = 4;

std::vector<builtin_schedule> whole_backwards() {
  using namespace catalogue;
  return {
    {"gpipe", "all forwards, then all backwards", one_stage, all_forwards_first,
     one},
    {"1f1b", "one forward, one backward, after a warm-up", one_stage,
     one_f_one_b, one},
    {"eager_1f1b", "1f1b with twice the warm-up: hides messages", one_stage,
     eager_1f1b, one},
    {"weight_stash", "1f1b that updates after each microbatch, without a flush",
     one_stage, weight_stash, one},
    {.name = "two_bw",
     .summary = "1f1b that updates after --breadth microbatches, two versions",
     .accepts = one_stage,
     .make = two_bw,
     .stages_per_rank = one,
     .has_breadth = true},
    {.name = "interleaved_1f1b",
     .summary = "1f1b over several stages per rank",
     .accepts = any_shape,
     .make = interleaved_1f1b,
     .usual_stages_per_rank = usual_chunks},
    {.name = "breadth_first",
     .summary = "all microbatches of a stage before the rank's next stage",
     .accepts = any_shape,
     .make = all_forwards_first,
     .usual_stages_per_rank = usual_chunks},
    {.name = "depth_first",
     .summary = "groups of --breadth microbatches, one after the other",
     .accepts = any_shape,
     .make = depth_first,
     .has_breadth = true,
     .usual_stages_per_rank = usual_chunks},
  };
}

std::vector<builtin_schedule> split_backwards_and_others() {
  using namespace catalogue;
  constexpr size_rule two{.least = 2, .most = 2};
  constexpr size_rule even{.least = 2, .even = true};
  // So that 2 P microbatches are within `most_slots`.
  constexpr size_rule few_ranks{.most = 1024};
  return {
    {"zb_h1", "split backwards, memory of 1f1b", one_stage, zb_h1, one},
    {"zb_h2", "split backwards, no idle between steps, twice the memory",
     one_stage, zb_h2, one},
    {.name = "interleaved_zb",
     .summary = "interleaved with split backwards",
     .accepts = any_shape,
     .make = interleaved_zb,
     .usual_stages_per_rank = usual_chunks},
    {"zb_v", "stages in a V, no idle between steps, the memory of 1f1b",
     two_stages, zb_v, two, few_ranks},
    {"v_half", "stages in a V, half the memory of 1f1b", two_stages, v_half,
     two},
    {"v_min", "stages in a V, a third of the memory of 1f1b", two_stages, v_min,
     two},
    {.name = "dualpipe_v",
     .summary = "stages in a V, overlapped pairs of F and B",
     .accepts = "any P; V = 2; m >= 2 P",
     .make = dualpipe_v,
     .stages_per_rank = two,
     .ranks = few_ranks,
     .microbatches_for_a_rank = 2},
    {.name = "dualpipe",
     .summary = "two copies of each stage, microbatches from both ends",
     .accepts = "even P; V = 1; even m >= 2 P",
     .make = dualpipe,
     .stages_per_rank = one,
     .ranks = {.least = 2, .most = 1024, .even = true},
     .microbatches = even,
     .microbatches_for_a_rank = 2},
    {.name = "seq_1f1b",
     .summary = "1f1b over --slices slices of each microbatch",
     .accepts = one_stage,
     .make = one_f_one_b,
     .stages_per_rank = one,
     .has_slices = true,
     .usual_slices = usual_slices},
    {"hanayo", "stages in waves, two stages per rank and wave",
     "any P and m; even V", hanayo, even},
    {"forward_only", "validation and inference", any_shape, forward_only},
  };
}

}  // namespace

const std::vector<builtin_schedule>& builtin_schedules() {
  static const auto table = [] {
    auto all = whole_backwards();
    std::ranges::move(split_backwards_and_others(), std::back_inserter(all));
    return all;
  }();
  return table;
}

namespace {

[[noreturn]] void refuse_name(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& row : builtin_schedules())
    names.emplace_back(row.name);
  const auto similar = did_you_mean(name, names);
  if (!similar.empty())
    fail(error_code::unknown_schedule, "unknown schedule '{}'{}", name,
         similar);
  fail(error_code::unknown_schedule,
       "unknown schedule '{}': known schedules are {}; or give a CSV file",
       name, fmt::join(names, ", "));
}

}  // namespace

schedule_shape with_usual_sizes(std::string_view name, schedule_shape shape) {
  const auto& all = builtin_schedules();
  const auto row = std::ranges::find(all, name, &builtin_schedule::name);
  const bool is_known = row != all.end();
  if (shape.stages_per_rank == 0)
    shape.stages_per_rank = !is_known ? 1
                                      : std::max(row->stages_per_rank.least,
                                                 row->usual_stages_per_rank);
  if (shape.slices == 0)
    shape.slices = is_known ? row->usual_slices : 1;
  return shape;
}

schedule make_schedule(std::string_view name, const schedule_shape& shape) {
  const auto& all = builtin_schedules();
  const auto row = std::ranges::find(all, name, &builtin_schedule::name);
  if (row == all.end())
    refuse_name(name);
  check_shape(*row, shape);
  auto result = row->make(shape);
  result.name = row->name;
  return result;
}

schedule find_schedule(const std::string& name_or_path,
                       const schedule_shape& shape) {
  if (name_or_path == "search")
    fail(error_code::unknown_schedule,
         "'search' is not a built-in schedule; troupe::search finds one for "
         "measured costs");
  return names_file(name_or_path) ? load_schedule(name_or_path)
                                  : make_schedule(name_or_path, shape);
}

bool names_file(const std::string& name_or_path) {
  return name_or_path.find_first_of("./") != std::string::npos;
}

}  // namespace troupe
