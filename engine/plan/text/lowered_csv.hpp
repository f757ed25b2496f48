#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/cell.hpp"

namespace troupe {

/// Reads PyTorch's lowered (comms) CSV as a plan: ops, receives and reductions
/// keep the file's order. Throws `error` with line, cell, rank, op and reason
/// (malformed_text, invalid_schedule).
plan from_lowered_csv(std::string_view text, std::string_view source = "CSV");

/// Writes a plan as PyTorch's lowered CSV. Omits norms and updates, which
/// PyTorch leaves to its caller. Throws `error` (invalid_argument) for plans
/// with slices or copies.
std::string to_lowered_csv(const plan& plan);

/// Whether a CSV has any cell that exists only in the lowered form.
bool is_lowered(const std::vector<std::vector<cell>>& rows);

/// Reads a plan, a CSV of either form, or the text form of a schedule, as a
/// plan: schedules are compiled. `source` names the text in errors.
plan plan_from_any_text(std::string_view text, const std::string& source);
/// Reads a file.
plan load_plan(const std::string& path);

}  // namespace troupe
