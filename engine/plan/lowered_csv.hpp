#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/cell.hpp"

namespace troupe {

/// Reads PyTorch's lowered (comms) CSV as a plan: the ops, receives and
/// reductions stand as the file has them. Throws `error` with line, cell,
/// rank, op and reason (malformed_text, invalid_schedule).
plan from_lowered_csv(std::string_view text, std::string_view source = "CSV");

/// Writes a plan as PyTorch's lowered CSV. Norms and updates, which PyTorch
/// leaves to its caller, are not written. Throws `error` (invalid_argument)
/// for plans with slices or copies.
std::string to_lowered_csv(const plan& of);

/// Whether a CSV has any cell that only the lowered form has.
bool is_lowered(const std::vector<std::vector<cell>>& rows);

/// A CSV of either form, or the text form, as a plan: compute forms are
/// compiled.
plan load_plan(const std::string& path);

}  // namespace troupe
