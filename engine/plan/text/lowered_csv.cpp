#include "troupe/engine/plan/text/lowered_csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/plan/compile/check_lanes.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/cell_rows.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe {

namespace {

using cell_rows = std::vector<std::vector<cell>>;

void append(std::vector<plan_op>& ops, const cell& what) {
  if (what.kind == cell_kind::idle)
    return;
  if (what.kind == cell_kind::compute || what.kind == cell_kind::pair) {
    ops.push_back(to_plan_op(what.first));
    if (what.kind == cell_kind::pair)
      ops.push_back(to_plan_op(what.second));
    return;
  }
  const auto* as = action_at(action_of(what.kind));
  auto& op = ops.emplace_back(
    plan_op{.kind = as->kind,
            .stream = as->stream,
            .stage = what.first.stage,
            .microbatch =
              what.kind >= cell_kind::unshard ? none : what.first.microbatch});
  if (is_transfer(op.kind))
    op.peer = chain_peer(op);
}

std::size_t ops_in(const cell& what) {
  return what.kind == cell_kind::idle   ? 0
         : what.kind == cell_kind::pair ? 2
                                        : 1;
}

plan lower_rows(const cell_rows& rows, std::string_view source) {
  const auto lanes = compute_lanes(rows, source);
  auto result = without_ops(lanes);
  for (const auto& row : rows) {
    result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
    for (const auto& what : row)
      append(result.ops, what);
  }
  result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
  check_lanes(result, [&](std::int32_t rank, std::size_t index) {
    return locate_cell(rows, source, rank, index, ops_in);
  });
  connect(result);
  grant_credits(result, 0);
  return result;
}

bool is_written(const plan_op& what) {
  return traits_of(what).type != op_class::closing;
}

// A pair is one cell; ops between its two ops follow it.
std::vector<std::string> cells_of(const plan& plan, std::int32_t rank) {
  std::vector<std::string> cells;
  const auto lane = plan.lane(rank);
  const plan_op* first = nullptr;
  std::size_t pair = 0;
  for (const auto& what : lane) {
    if (!is_written(what))
      continue;
    if (what.overlaps_next) {
      first = &what;
      pair = cells.size();
      cells.emplace_back();
    } else if (first != nullptr && is_compute(what.kind)) {
      cells[pair] = fmt::format("({};{})OVERLAP_F_B", to_text(plan, *first),
                                to_text(plan, what));
      first = nullptr;
    } else {
      cells.push_back(to_text(plan, what));
    }
  }
  return cells;
}

}  // namespace

bool is_lowered(const cell_rows& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](const cell& what) {
      return what.kind > cell_kind::pair;
    });
  });
}

plan from_lowered_csv(std::string_view text, std::string_view source) {
  return lower_rows(parse_cells(text, source), source);
}

std::string to_lowered_csv(const plan& plan) {
  const auto refuse_if = [&](bool has, const char* what) {
    if (has)
      fail(error_code::invalid_argument,
           "{}: CSV can't express {}; write a plan (--format plan)",
           plan.schedule_name, what);
  };
  refuse_if(plan.slices != 1, "slices");
  refuse_if(plan.placement.copies() != 1, "copies of stages");
  refuse_if(plan.update.every > 0, "updates within a step");
  refuse_if(!tied_stages(plan).empty(), "sums of tied gradients");
  refuse_if(!plan.graph.is_chain(),
            "stages that read others than the one before");
  std::string text;
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank)
    text += fmt::format("{}\r\n", fmt::join(cells_of(plan, rank), ","));
  return text;
}

plan plan_from_any_text(std::string_view text, const std::string& source) {
  if (is_plan_text(text))
    return plan_from_text(text, source);
  if (is_text_form(text))
    return compile(from_text_form(text, source));
  const auto rows = parse_cells(text, source);
  return is_lowered(rows) ? lower_rows(rows, source)
                          : compile(compute_lanes(rows, source));
}

plan load_plan(const std::string& path) {
  return plan_from_any_text(read_file(path), path);
}

}  // namespace troupe
