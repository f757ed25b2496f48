#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <vector>

#include "troupe/engine/plan/compile/passes.hpp"

namespace troupe {

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

class creditor {
 public:
  explicit creditor(plan& plan) : plan_{plan} {
    std::size_t first = 0;
    for (const auto& edge : plan_.channels) {
      const auto count = static_cast<std::size_t>(edge.messages);
      messages_.push_back(message_span{plan_.messages}.subspan(first, count));
      first += count;
    }
  }

  void run(std::int32_t limit) {
    for (std::size_t i = 0; i < plan_.channels.size(); ++i) {
      auto& edge = plan_.channels[i];
      edge.bound = bound_of(messages_[i], {witness{between(edge, false)},
                                           witness{between(edge, true)}});
      edge.credits = limit > 0 ? std::min(limit, edge.bound) : edge.bound;
    }
  }

 private:
  // Messages in the other direction between a channel's ends.
  message_span between(const channel& edge, bool backward) const {
    const channel wanted{.from_rank = edge.to_rank,
                         .to_rank = edge.from_rank,
                         .backward = backward};
    const auto key = [](const channel& c) {
      return std::tuple{c.from_rank, c.to_rank, c.backward};
    };
    const auto found = std::lower_bound(
      plan_.channels.begin(), plan_.channels.end(), wanted,
      [&](const auto& a, const auto& b) { return key(a) < key(b); });
    if (found == plan_.channels.end() || key(*found) != key(wanted))
      return {};
    return messages_[static_cast<std::size_t>(found - plan_.channels.begin())];
  }

  plan& plan_;
  std::vector<message_span> messages_;
};

}  // namespace

void grant_credits(plan& result, std::int32_t limit) {
  creditor{result}.run(limit);
}

}  // namespace troupe
