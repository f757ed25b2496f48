#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// How long ops take, in any one unit of time. The most specific figure wins:
/// for an op, a stage, a kind. Unit of the defaults: one forward.
struct op_costs {
  using by_kind = std::array<double, op_kinds>;

  /// By plan_op_kind: F = I = W = 1, B = 2, all others take no time.
  by_kind of_kind = default_costs();
  std::vector<by_kind> of_stage{};  // rows of the first stages
  std::vector<double> of_op{};      // empty, or one figure per op of the plan
  /// From the end of a message's producer until it can be consumed.
  double message = 0;
  /// An overlapped pair is one op: it waits for both inputs and delivers
  /// both results at its end. Otherwise F, then B, each at its own end.
  bool atomic_pairs = false;
  /// A message leaves when its channel has a credit: fewer messages sent and
  /// not yet consumed than `channel::credits`. In strict order only.
  bool credits = false;
  /// One entry read by `parse_costs`; a message counts as a send.
  struct entry {
    std::string text;
    plan_op_kind kind = plan_op_kind::send;
    std::int32_t stage = none;  // none: for all stages
    double value = 0;
  };
  std::vector<entry> entries{};

  static constexpr by_kind default_costs() {
    by_kind costs{};
    for (const auto& row : op_actions)
      costs[static_cast<std::size_t>(row.kind)] = row.cost;
    return costs;
  }

  double cost_of(std::uint32_t op, const plan_op& what) const {
    const auto kind = static_cast<std::size_t>(what.kind);
    const auto stage = static_cast<std::size_t>(what.stage);
    return !of_op.empty()            ? of_op[op]
           : stage < of_stage.size() ? of_stage[stage][kind]
                                     : of_kind[kind];
  }
};

/// Reads "f=1,b=2,i=1,w=1,message=0.25": keys f, b, i, w, unshard, reshard,
/// reduce, sum_tied, norm, update, message; "f.3=1.5" is for stage 3 only. Of
/// b, i and w the halves that are not given follow from the whole, or the whole
/// from them.
/// Entries end in a comma or a new line; '#' begins a comment. A cost is in
/// 0..1e15. Throws `error` (malformed_text) with the entry.
op_costs parse_costs(std::string_view text);

/// Reads a file if one has this name, else the text itself; then text that
/// can't be read is wrong usage (invalid_argument).
op_costs load_costs(const std::string& path_or_text);

/// What makes ops slower than their costs.
struct disturbance {
  std::vector<double> of_rank{};  // factors of the first ranks; of others 1
  /// Sigma of a log-normal factor, of median 1, of each op by itself.
  double jitter = 0;
  std::uint64_t seed = 1;
};

/// Throws `error` (invalid_argument) if costs of single ops don't fit the plan.
void require_costs_of(const plan& plan, const op_costs& costs);

/// Reads factors of ranks, as "rank.2=1.3,rank.0=2", in the form of costs.
std::vector<double> parse_slow_ranks(std::string_view text);

/// The costs of each op of the plan, disturbed; a message's stays. Throws
/// `error` (invalid_argument) for a factor of a rank that the plan lacks.
op_costs disturbed(op_costs costs, const plan& plan, const disturbance& how);

/// The entries that no op or message of the plan uses, as written.
std::vector<std::string> without_effect(const op_costs& costs,
                                        const plan& plan);

}  // namespace troupe
