#include "troupe/engine/membership/choose_step.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace troupe::membership {
namespace {

/// Which member holds what, by the number of the state.
class holders {
 public:
  holders(const job_shape& shape, const std::vector<member_copies>& members)
    : shape_(shape), members_(members) {
    for (const auto& [member, copies] : members_)
      for (const auto& copy : copies)
        if (copy.kind == copy_kind::applied)
          last_applied_ = std::max(last_applied_, copy.step);
  }

  std::vector<std::int64_t> steps_descending() const {
    std::vector<std::int64_t> steps;
    for (const auto& [member, copies] : members_)
      for (const auto& copy : copies)
        steps.push_back(copy.step);
    std::ranges::sort(steps, std::greater{});
    const auto rest = std::ranges::unique(steps);
    steps.erase(rest.begin(), rest.end());
    return steps;
  }

  /// The states that have a copy of the step, if it counts.
  std::vector<bool> states_with(std::int64_t step) const {
    auto found = states_with(step, true);
    if (step > last_applied_ && std::ranges::count(found, false) > 0)
      found = states_with(step, false);
    return found;
  }

  /// Calls it with each member that has a copy of the state.
  template <class Call>
  void for_each_holder(std::int32_t rank, std::int64_t step,
                       const Call& call) const {
    for (const auto& [member, copies] : members_)
      if (std::ranges::any_of(copies, [&](const held_copy& copy) {
            return copy.step == step
                   && shape_.state_of(copy.rank) == shape_.state_of(rank);
          }))
        call(member);
  }

 private:
  std::vector<bool> states_with(std::int64_t step, bool counts_prepared) const {
    std::vector<bool> found(static_cast<std::size_t>(shape_.states()));
    for (const auto& [member, copies] : members_)
      for (const auto& copy : copies)
        if (copy.step == step
            && (counts_prepared || copy.kind != copy_kind::prepared))
          found[static_cast<std::size_t>(shape_.state_of(copy.rank))] = true;
    return found;
  }

  const job_shape& shape_;
  const std::vector<member_copies>& members_;
  std::int64_t last_applied_ = -1;
};

hosting_map choose_givers(const holders& held, const hosting_map& hosting,
                          std::int64_t step) {
  std::map<member_id, int> sends;  // states
  hosting_map givers;
  for (std::size_t rank = 0; rank < hosting.size(); ++rank) {
    auto best = no_member;
    held.for_each_holder(
      static_cast<std::int32_t>(rank), step, [&](member_id member) {
        if (best == hosting[rank])
          return;
        if (member == hosting[rank] || best == no_member
            || std::pair(sends[member], member) < std::pair(sends[best], best))
          best = member;
      });
    if (best != hosting[rank])
      ++sends[best];
    givers.push_back(best);
  }
  return givers;
}

std::vector<std::int32_t> lost_ranks(const job_shape& shape,
                                     const holders& held) {
  std::vector<bool> most(static_cast<std::size_t>(shape.states()));
  for (const auto step : held.steps_descending()) {
    const auto found = held.states_with(step);
    if (std::ranges::count(found, true) > std::ranges::count(most, true))
      most = found;
  }
  std::vector<std::int32_t> lost;
  for (std::int32_t rank = 0; rank < shape.ranks(); ++rank)
    if (!most[static_cast<std::size_t>(shape.state_of(rank))])
      lost.push_back(rank);
  return lost;
}

}  // namespace

step_choice choose_step(const job_shape& shape,
                        const std::vector<member_copies>& members,
                        const hosting_map& hosting,
                        std::optional<std::int64_t> checkpoint_step) {
  const holders held(shape, members);
  const auto least = checkpoint_step.value_or(-1);
  for (const auto step : held.steps_descending())
    if (step >= least && std::ranges::count(held.states_with(step), false) == 0)
      return {step, choose_givers(held, hosting, step), {}};
  if (checkpoint_step)
    return {checkpoint_step, choose_givers(held, hosting, least), {}};
  return {{}, {}, lost_ranks(shape, held)};
}

}  // namespace troupe::membership
