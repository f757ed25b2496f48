#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// A plan as text: its sizes, placement, every rank's ops in order, and the
/// credits of its channels. Messages and dependencies follow from these, so
/// reading the text gives an equal plan. For example, the beginning of one:
///
///   troupe plan 1
///   name 1f1b
///   microbatches 4
///   slices 1
///   global_norm 0
///   placement 0 1
///   rank 0: 0F0 0SEND_F0 0F1 ...
///   rank 1: 1RECV_F0 1F0 ...
///   credits 2 2
std::string to_text(const plan& plan);

/// Throws `error`: malformed_text with line and reason, invalid_schedule.
plan plan_from_text(std::string_view text, std::string_view source = "text");

/// Reads a file of that form. Throws like `plan_from_text`, `io` too; names the
/// file.
plan plan_from_file(const std::string& path);

/// Whether a text begins like a plan that `to_text` wrote.
bool is_plan_text(std::string_view text);

/// A plan as JSON: sizes; `ranks`, each a list of ops with the indices of their
/// dependencies; and `channels`. Ops are numbered over all ranks.
std::string to_json(const plan& plan);

/// A hash of everything in a plan but its name: equal plans have equal hashes,
/// also in different processes of the same program.
std::uint64_t content_hash(const plan& plan);

}  // namespace troupe
