#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/cost/division.hpp"
#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// How long a message takes from the end of its producer, or from the end of
/// the transfer before it on its channel, until it can be consumed.
struct message_time {
  double transfer = 0;  // bytes / bandwidth: the channel's next one waits
  double latency = 0;   // after the transfer

  double total() const { return transfer + latency; }
};

/// How long ops take, in any one unit of time. The most specific figure wins:
/// for an op, a stage, a kind. Unit of the defaults: one forward.
struct op_costs {
  using by_kind = std::array<double, op_kinds>;

  /// By plan_op_kind: F = I = W = 1, B = 2, all others take no time.
  by_kind of_kind = default_costs();
  std::vector<by_kind> of_stage{};  // rows of the first stages
  std::vector<double> of_op{};      // empty, or one figure per op of the plan
  /// The latency of messages, and how long each occupies its channel.
  double message = 0;
  double transfer = 0;
  /// The times of single links, both ways, in place of these two.
  std::map<rank_pair, message_time> of_link{};
  /// An overlapped pair is one op: it waits for both inputs and delivers
  /// both results at its end. Otherwise F, then B, each at its own end.
  bool atomic_pairs = false;
  /// A message leaves when its channel has a credit: fewer messages sent and
  /// not yet consumed than `channel::credits`. In strict order only.
  bool credits = false;
  /// One entry read by `parse_costs`; a message counts as a send.
  struct entry : keyed_number {
    plan_op_kind kind = plan_op_kind::send;
  };
  std::vector<entry> entries{};

  message_time message_between(std::int32_t rank, std::int32_t other) const {
    const auto found = of_link.find(std::minmax(rank, other));
    return found != of_link.end() ? found->second
                                  : message_time{transfer, message};
  }

  static constexpr by_kind default_costs() {
    by_kind costs{};
    for (const auto& row : op_actions)
      costs[slot(row.kind)] = row.cost;
    return costs;
  }

  double cost_of(std::uint32_t op, const plan_op& what) const {
    const auto kind = slot(what.kind);
    const auto stage = slot(what.stage);
    return !of_op.empty()            ? of_op[op]
           : stage < of_stage.size() ? of_stage[stage][kind]
                                     : of_kind[kind];
  }
};

/// Reads "f=1,b=2,i=1,w=1,message=0.25": the keys are `op_traits::cost_key`,
/// and message, bytes, bandwidth; "f.3=1.5" is for stage 3 only. Of b, i and w
/// the halves that are not given follow from the whole, or the whole from them.
/// `message` is the latency of one; with `bytes` (of a message) and `bandwidth`
/// (bytes in a unit of time) it also occupies its channel. These three also for
/// single links: "bandwidth.3-4=1e6" for ranks 3 and 4, both ways. Entries end
/// in a comma or a new line; '#' begins a comment. A cost is in 0..1e15. Throws
/// `error` (malformed_text) with the entry.
op_costs parse_costs(std::string_view text);

/// Reads a file if one has this name, else the text itself; then text that
/// can't be read is wrong usage (invalid_argument).
op_costs load_costs(const std::string& path_or_text);

/// The part of a rank's costs that falls on each stage and slice, from costs of
/// all layers of a rank and a full microbatch. Messages are divided among the
/// slices. Costs of single stages and ops stay.
op_costs divided(op_costs costs, const division& by);

/// The costs of a rank's layers where costs of single stages, as a run measured
/// them, are shared equally among `ranks`; other costs stay. Throws `error`
/// (invalid_argument) unless each stage has those of a forward and a backward.
op_costs costs_of_rank(op_costs costs, std::int32_t ranks);

/// What makes ops slower than their costs.
struct disturbance {
  std::vector<double> of_rank{};  // factors of the first ranks; of others 1
  /// Sigma of a log-normal factor, of median 1, of each op by itself.
  double jitter = 0;
  std::uint64_t seed = 1;
};

/// When each message of a plan's channels leaves and arrives.
class channel_times {
 public:
  channel_times(const plan& plan, const op_costs& costs);

  /// A message that is ready at some time, after those before it on its
  /// channel.
  struct passage {
    double leaves = 0, sent = 0, arrives = 0;
  };
  passage pass(std::int32_t channel, double ready);

 private:
  std::vector<message_time> times_;
  std::vector<double> free_from_;
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
