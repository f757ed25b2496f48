#include "troupe/engine/membership/step_commit.hpp"

#include <algorithm>
#include <utility>

namespace troupe::membership {

std::vector<member_id> hosts_of(const hosting_map& hosting) {
  auto hosts = hosting;
  std::ranges::sort(hosts);
  const auto rest = std::ranges::unique(hosts);
  hosts.erase(rest.begin(), rest.end());
  return hosts;
}

step_commit::step_commit(const epoch& of, member_id self)
  : epoch_(of.number),
    self_(self),
    hosts_(hosts_of(of.hosting)),
    decided_(of.from_step) {
  if (self == leader())
    ballots_.resize(hosts_.size());
}

void step_commit::prepare(std::int64_t step, std::int64_t stored_step) {
  vote_ = step_vote{epoch_, self_, step, stored_step};
}

bool step_commit::receive(const step_vote& vote) {
  const auto host = std::ranges::lower_bound(hosts_, vote.member);
  if (ballots_.empty() || vote.epoch != epoch_ || vote.step != decided_ + 1
      || host == hosts_.end() || *host != vote.member)
    return false;
  ballots_[static_cast<std::size_t>(host - hosts_.begin())] = {
    vote.step, vote.stored_step};
  return true;
}

bool step_commit::receive(const step_decision& decision) {
  if (decision.epoch != epoch_ || decision.step <= decided_)
    return false;
  decided_ = decision.step;
  applicable_ = decision;
  return true;
}

std::optional<step_vote> step_commit::take_vote() {
  return std::exchange(vote_, std::nullopt);
}

std::optional<step_decision> step_commit::take_decision() {
  const auto next = decided_ + 1;
  if (ballots_.empty() || !std::ranges::all_of(ballots_, [&](auto& each) {
        return each.step == next;
      }))
    return std::nullopt;
  const auto stored =
    std::ranges::min(ballots_, {}, &ballot::stored_step).stored_step;
  decided_ = next;
  applicable_ = step_decision{epoch_, next, stored};
  return applicable_;
}

std::optional<step_decision> step_commit::take_applicable() {
  return std::exchange(applicable_, std::nullopt);
}

}  // namespace troupe::membership
