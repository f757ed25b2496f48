#include "troupe/engine/plan/compile/least_credits.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

namespace troupe {

std::vector<std::int32_t> least_credits(const plan& of, credit_goal goal,
                                        op_costs costs) {
  auto plan = of;
  costs.credits = true;
  for (auto& channel : plan.channels)
    channel.credits = channel.bound;
  if (const auto proof = verify(plan, {transport_kind::credited});
      !proof.progress)
    throw error(error_code::deadlock, proof.text());
  std::optional<double> longest;
  if (goal == credit_goal::makespan)
    longest = simulate(plan, costs).makespan * (1 + 1e-9);
  const auto suffices = [&] {
    return verify(plan, {transport_kind::credited}).progress
           && (!longest || simulate(plan, costs).makespan <= *longest);
  };
  std::vector<std::int32_t> least;
  for (auto& channel : plan.channels) {
    // Lowering others later can only make this one's more necessary.
    auto enough = channel.credits;
    for (std::int32_t few = 0; enough - few > 1;) {
      channel.credits = few + (enough - few) / 2;
      (suffices() ? enough : few) = channel.credits;
    }
    channel.credits = enough;
    least.push_back(enough);
  }
  return least;
}

namespace {

using message_span = std::span<const message>;

// The sender's knowledge of its receiver's progress: each message that it has
// consumed proves how far the receiver had come when sending it.
class witness {
 public:
  explicit witness(message_span messages) : messages_{messages} {}

  /// The receiver's last op that has certainly ended when the sender starts
  /// `op`; -1 if none.
  std::int64_t horizon_at(std::uint32_t op) {
    for (; next_ < messages_.size() && messages_[next_].consumer < op; ++next_)
      horizon_ = std::max(horizon_, std::int64_t{messages_[next_].producer});
    return horizon_;
  }

 private:
  message_span messages_;
  std::size_t next_ = 0;
  std::int64_t horizon_ = -1;
};

// Most messages of a channel that can be sent and not consumed. Uses only what
// the messages between the two ranks prove, and the order of consumption in a
// channel: an upper bound for any lanes, exact for pipelines without a ring.
std::int32_t bound_of(message_span sent, std::array<witness, 2> witnesses) {
  std::size_t consumed = 0;
  std::size_t bound = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const auto horizon = std::max(witnesses[0].horizon_at(sent[i].producer),
                                  witnesses[1].horizon_at(sent[i].producer));
    while (consumed < i && std::int64_t{sent[consumed].consumer} <= horizon)
      ++consumed;
    bound = std::max(bound, i + 1 - consumed);
  }
  return static_cast<std::int32_t>(bound);
}

}  // namespace

void grant_credits(plan& result, std::int32_t limit) {
  using ends = std::tuple<std::int32_t, std::int32_t, bool>;
  std::map<ends, message_span> messages;  // by ranks and direction
  std::size_t first = 0;
  for (const auto& edge : result.channels) {
    const auto count = slot(edge.messages);
    messages[{edge.from_rank, edge.to_rank, edge.backward}] =
      message_span{result.messages}.subspan(first, count);
    first += count;
  }
  for (auto& edge : result.channels) {
    // The messages between the channel's ends in the other direction.
    const auto between = [&](bool backward) {
      const auto found =
        messages.find({edge.to_rank, edge.from_rank, backward});
      return witness{found == messages.end() ? message_span{} : found->second};
    };
    edge.bound =
      bound_of(messages[{edge.from_rank, edge.to_rank, edge.backward}],
               {between(false), between(true)});
    edge.credits = limit > 0 ? std::min(limit, edge.bound) : edge.bound;
  }
}

plan with_lanes(const plan& before, const lane_writer& lane_of) {
  plan result{.schedule_name = before.schedule_name,
              .microbatches = before.microbatches,
              .slices = before.slices,
              .training = before.training,
              .global_norm = before.global_norm,
              .placement = before.placement,
              .graph = before.graph,
              .update = before.update};
  for (std::int32_t rank = 0; rank < before.ranks(); ++rank) {
    const auto lane = lane_of(rank);
    result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
    result.ops.insert(result.ops.end(), lane.begin(), lane.end());
  }
  result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
  for (auto& what : result.ops)
    what.message = none;  // numbered anew
  connect(result);
  grant_credits(result, 0);
  for (std::size_t i = 0; i < result.channels.size(); ++i)
    result.channels[i].credits = before.channels[i].credits;
  return result;
}

}  // namespace troupe
