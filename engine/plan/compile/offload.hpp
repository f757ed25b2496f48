#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace troupe {

struct plan;

/// Which activations wait for their backward in the host's memory.
struct offload_options {
  /// The part of each stage's long-lived activations that is copied: 0 none,
  /// 1 all. The others are spread evenly over the microbatches.
  double fraction = 0;
  std::map<std::int32_t, double> of_stage{};  // stages that differ
  /// A reload begins so many compute ops (a pair counts as one) of its rank
  /// ahead of the backward that needs it: more hide a slower copy, and hold the
  /// memory for longer.
  std::int32_t ahead = 1;
  /// The least number of compute ops between a forward and its backward for
  /// which a copy is made; 0: `ahead` + 2, so that memory is free during one op
  /// at least.
  std::int32_t least_stay = 0;

  double of(std::int32_t stage) const {
    const auto found = of_stage.find(stage);
    return found == of_stage.end() ? fraction : found->second;
  }
  friend bool operator==(const offload_options&,
                         const offload_options&) = default;
};

/// Whether any activation is to go.
bool offloads(const offload_options& options);
/// Whether a plan has such ops.
bool offloads(const plan& of);

/// Reads "all", a fraction, as "0.5", or entries, as "all=0.5,stage.0=1" (those
/// of stages that are not named: `all`, or 0), in the form of costs. Throws
/// `error` (malformed_text) with what is wrong.
offload_options parse_offload(std::string_view text);
/// Reads a file if one has this name, else the text; as `load_costs`.
offload_options load_offload(const std::string& path_or_text);

/// Throws `error` (invalid_argument) for a fraction outside 0..1, a stage that
/// the plan lacks, `ahead` below 1, or a `least_stay` that leaves no time
/// between offload and reload.
void require_legal(const offload_options& options, std::int32_t stages);

/// The plan with OFFLOAD behind forwards and their sends, and RELOAD ahead of
/// the backwards (B or I) that need what those kept: the place of copies in
/// pipeline bubbles as in BPipe (Kim et al., 2023) and PipeOffload (Wan et al.,
/// 2025). Throws `error` (invalid_argument) for options that aren't legal, and
/// for a plan that offloads already. Linear in the number of ops.
plan offloaded(const plan& before, const offload_options& options);

}  // namespace troupe
