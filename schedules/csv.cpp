#include "troupe/schedules/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/schedules/cell_rows.hpp"
#include "troupe/schedules/op.hpp"
#include "troupe/schedules/schedule_name.hpp"
#include "troupe/schedules/text_form.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

using cell_rows = std::vector<std::vector<cell>>;

std::size_t op_count_of(const cell& what) {
  return what.kind == cell_kind::pair      ? 2
         : what.kind == cell_kind::compute ? 1
                                           : 0;
}

lane compute_ops(const std::vector<cell>& row) {
  lane ops;
  for (const auto& what : row) {
    if (op_count_of(what) > 0)
      ops.push_back(what.first);
    if (op_count_of(what) > 1)
      ops.push_back(what.second);
  }
  return ops;
}

// The largest numbers determine the sizes. If there are fewer ops than they
// require, names the first missing one before allocating anything of that size.
void check_dense(const schedule& lanes, std::string_view source) {
  std::set<std::pair<std::int32_t, std::int32_t>> forwards;
  for (const auto& ops : lanes.lanes)
    for (const auto& o : ops)
      if (o.kind == op_kind::forward)
        forwards.emplace(o.stage, o.microbatch);
  for (std::int32_t stage = 0; stage < lanes.stages(); ++stage)
    for (std::int32_t k = 0; k < lanes.microbatches; ++k)
      if (!forwards.contains({stage, k}))
        fail(error_code::invalid_schedule,
             "{}: {}F{} is missing; the numbers in the file imply {} stages "
             "and {} microbatches",
             source, stage, k, lanes.stages(), lanes.microbatches);
}

// A stage's rank is the first one that holds an op of it.
placement infer_placement(const std::vector<lane>& lanes,
                          std::size_t most_stages) {
  placement result{.ranks = static_cast<std::int32_t>(lanes.size()),
                   .rank_by_stage = {{}}};
  auto& ranks = result.rank_by_stage[0];
  for (std::size_t rank = 0; rank < lanes.size(); ++rank)
    for (const auto& o : lanes[rank]) {
      const auto stage = slot(o.stage);
      if (stage >= most_stages)
        continue;
      if (ranks.size() <= stage)
        ranks.resize(stage + 1, -1);
      if (ranks[stage] < 0)
        ranks[stage] = static_cast<std::int32_t>(rank);
    }
  return result;
}

}  // namespace

std::string locate_cell(const cell_rows& rows, std::string_view source,
                        std::int32_t rank, std::size_t index,
                        std::size_t (*ops_in)(const cell&)) {
  std::size_t number = 0;
  std::size_t ops = 0;
  for (const auto& what : rows[slot(rank)]) {
    ++number;
    ops += ops_in(what);
    if (ops > index)
      return fmt::format("{}, line {}, cell {} (rank {})", source, rank + 1,
                         number, rank);
  }
  return fmt::format("{}, line {} (rank {})", source, rank + 1, rank);
}

schedule compute_lanes(const cell_rows& rows, std::string_view source) {
  schedule result{.name = schedule_name(source)};
  std::size_t ops = 0;
  std::int32_t last_stage = -1;
  for (const auto& row : rows) {
    result.lanes.push_back(compute_ops(row));
    ops += result.lanes.back().size();
    if (result.lanes.back().empty())
      fail(error_code::invalid_schedule,
           "{}, line {} (rank {}): the rank has no compute op", source,
           result.lanes.size(), result.lanes.size() - 1);
    for (const auto& o : result.lanes.back()) {
      last_stage = std::max(last_stage, o.stage);
      result.microbatches = std::max(result.microbatches, o.microbatch + 1);
    }
  }
  if (slot(last_stage) >= ops)
    fail(
      error_code::invalid_schedule,
      "{}: stage {} appears in a file of {} ops, so other stages are missing",
      source, last_stage, ops);
  result.placement = infer_placement(result.lanes, ops);
  if (ops < slot_count(result) || slot_count(result) == 0
      || std::count(result.placement.rank_by_stage[0].begin(),
                    result.placement.rank_by_stage[0].end(), -1)
           > 0)
    check_dense(result, source);
  validate(result, source, [&](std::int32_t rank, std::size_t index) {
    return locate_cell(rows, source, rank, index, op_count_of);
  });
  return result;
}

schedule from_csv(std::string_view text, std::string_view source) {
  const auto rows = parse_cells(text, source);
  for (std::size_t line = 0; line < rows.size(); ++line)
    for (std::size_t i = 0; i < rows[line].size(); ++i)
      if (rows[line][i].kind > cell_kind::pair)
        fail(error_code::malformed_text,
             "{}, line {}, cell {} '{}': a compute schedule has no transfers "
             "and no sharding; give the compute-only file",
             source, line + 1, i + 1, to_text(rows[line][i]));
  return compute_lanes(rows, source);
}

std::string to_csv(const schedule& lanes) {
  if (lanes.slices != 1 || lanes.placement.copies() != 1
      || lanes.update.every > 0)
    fail(error_code::invalid_argument,
         "{}: CSV can't express slices, copies and updates within a step; "
         "write the text form (--format schedule)",
         lanes.name);
  std::string text;
  for (const auto& ops : lanes.lanes) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (i > 0)
        text += ',';
      const auto pair = ops[i].overlaps_next;
      text += pair ? to_text(cell{cell_kind::pair, ops[i], ops[i + 1]})
                   : to_text(ops[i]);
      if (pair)
        ++i;
    }
    text += "\r\n";
  }
  return text;
}

schedule load_schedule(const std::string& path) {
  const auto text = read_file(path);
  return is_text_form(text) ? from_text_form(text, path) : from_csv(text, path);
}

}  // namespace troupe
