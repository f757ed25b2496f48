#include "troupe/engine/membership/failure_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "troupe/engine/membership/failure_text.hpp"

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
  return judge(now, policy_.lost_member, false,
               "a process was lost (--on-failure process=stop)");
}

bool failure_history::allows_loss(moment now) const {
  const auto& rule = policy_.lost_member;
  const auto recent = std::ranges::count_if(entries_, [&](const entry& each) {
    return !each.is_op && each.when > now - rule.within;
  });
  return rule.action != remedy::stop && recent < rule.most;
}

remedy failure_history::add_failed_op(moment now, member_id member,
                                      std::int64_t step,
                                      const std::string& what,
                                      std::int32_t members) {
  const auto todo = policy_.failed_op.action;
  const auto before = members_failing(step);
  const bool is_again = std::ranges::binary_search(before, member);
  entries_.push_back({true, member, step, now});
  const auto failing = std::ssize(before) + (is_again ? 0 : 1);
  if (todo != remedy::stop && failing > 1
      && failing >= std::min(policy_.members_of_step, members)) {
    stop_reason_ =
      fmt::format("a step failed in {} processes: {}", failing, what);
    return remedy::stop;
  }
  const auto judged = judge(now, policy_.failed_op, true, what);
  return judged == remedy::retry && is_again ? remedy::rehost : judged;
}

remedy failure_history::judge(moment now, const failure_rule& rule, bool is_op,
                              const std::string& what) {
  std::erase_if(entries_, [&](const entry& each) {
    return each.is_op == is_op && each.when <= now - rule.within;
  });
  const auto recent = std::ranges::count(entries_, is_op, &entry::is_op);
  if (rule.action != remedy::stop && recent <= rule.most)
    return rule.action;
  stop_reason_ =
    rule.action == remedy::stop
      ? what
      : fmt::format("{} {} within {} (--on-failure allows {}){}", recent,
                    is_op ? "ops failed" : "processes were lost",
                    time_text(rule.within), rule.most,
                    is_op ? ": " + what : std::string{});
  return remedy::stop;
}

std::vector<member_id> failure_history::members_failing(
  std::int64_t step) const {
  std::set<member_id> members;
  for (const auto& each : entries_)
    if (each.is_op && each.step == step)
      members.insert(each.member);
  return {members.begin(), members.end()};
}

}  // namespace troupe::membership
