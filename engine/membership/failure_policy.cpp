#include "troupe/engine/membership/failure_policy.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::membership {

void failure_history::restore(moment now,
                              const std::vector<past_failure>& failures) {
  entries_.clear();
  for (const auto& each : failures)
    entries_.push_back(
      {each.is_op, each.member, each.step, now - moment(each.age_us)});
}

std::vector<past_failure> failure_history::failures(moment now) const {
  std::vector<past_failure> result;
  for (const auto& each : entries_)
    result.push_back(
      {each.is_op, each.member, each.step, (now - each.when).count()});
  return result;
}

remedy failure_history::add_loss(moment now, member_id member) {
  entries_.push_back({false, member, 0, now});
  return judge(now, policy_.lost_member, false, "lost processes");
}

remedy failure_history::add_failed_op(moment now, member_id member,
                                      std::int64_t step,
                                      const std::string& what) {
  entries_.push_back({true, member, step, now});
  if (members_failing(step) >= policy_.members_of_step) {
    stop_reason_ = fmt::format("step {} failed in {} processes: {}", step,
                               members_failing(step), what);
    return remedy::stop;
  }
  return judge(now, policy_.failed_op, true, what);
}

remedy failure_history::judge(moment now, const failure_rule& rule, bool is_op,
                              const std::string& what) {
  const auto recent = std::ranges::count_if(entries_, [&](const entry& each) {
    return each.is_op == is_op && each.when > now - rule.within;
  });
  std::erase_if(entries_, [&](const entry& each) {
    return each.is_op == is_op && each.when <= now - rule.within;
  });
  if (rule.action != remedy::stop && recent <= rule.most)
    return rule.action;
  const auto seconds =
    std::chrono::duration_cast<std::chrono::seconds>(rule.within).count();
  stop_reason_ =
    rule.action == remedy::stop
      ? what
      : fmt::format("{} failures within {} s, and {} are the most: {}", recent,
                    seconds, rule.most, what);
  return remedy::stop;
}

std::int32_t failure_history::members_failing(std::int64_t step) const {
  std::vector<member_id> members;
  for (const auto& each : entries_)
    if (each.is_op && each.step == step
        && std::ranges::count(members, each.member) == 0)
      members.push_back(each.member);
  return static_cast<std::int32_t>(members.size());
}

}  // namespace troupe::membership
