#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "troupe/engine/membership/authority.hpp"
#include "troupe/engine/membership/step_commit.hpp"

// The authority's way from one epoch to the next.

namespace troupe::membership {

void authority::advance(moment now, authority_output& out) {
  seats_.drop_if([&](const seat& each) {
    return !is_member(each.member)
           && (each.has_ended || now - each.heard >= options_.silent_after);
  });
  if (phase_ == authority_phase::running
      || phase_ == authority_phase::preparing) {
    if (auto cause = cause_of_new_epoch(now))
      freeze(now, *std::move(cause), out);
    else if (phase_ == authority_phase::preparing && all_ready())
      begin(now, out);
    else if (phase_ == authority_phase::running)
      wishes_ = {};
  } else if (phase_ == authority_phase::freezing) {
    form_epoch(now, out);
  }
}

std::optional<std::string> authority::cause_of_new_epoch(moment now) const {
  if (!cause_.empty())
    return cause_;
  const auto number = record_.epoch.number;
  if (number == 0)
    return std::cmp_less(seats_.size(), options_.least_members)
             ? std::nullopt
             : std::optional("the job begins");
  for (const auto member : record_.epoch.members) {
    const auto* of = seats_.find(member);
    if (phase_ == authority_phase::running && is_released(member))
      continue;
    if (of->has_ended)
      return fmt::format("member {} ended", member);
    if (of->has_promised(number))
      return fmt::format("member {} has stopped", member);
    if (now - of->heard >= options_.silent_after)
      return fmt::format("member {} is silent", member);
  }
  return phase_ == authority_phase::running ? cause_in_wishes(now)
                                            : std::nullopt;
}

bool authority::has_drains() const {
  return std::ranges::any_of(seats_, [&](const seat& each) {
    return is_draining(each) && is_member(each.member)
           && !is_released(each.member);
  });
}

std::string authority::leaving_text() const {
  std::vector<std::string> leaving;
  for (const auto& each : seats_)
    if (is_draining(each) && is_member(each.member)
        && !is_released(each.member))
      leaving.push_back(fmt::format("member {}", each.member));
  return fmt::format("{} leave{}", fmt::join(leaving, ", "),
                     leaving.size() == 1 ? "s" : "");
}

std::optional<std::string> authority::cause_in_wishes(moment now) const {
  const auto drains = has_drains();
  if (wishes_.is_empty() && !drains)
    return std::nullopt;
  std::vector<member_id> stay;
  for (const auto& each : seats_)
    if (!is_draining(each) && now - each.heard < options_.silent_after)
      stay.push_back(each.member);
  const auto& before = record_.epoch.hosting;
  if (stay.empty())
    return std::nullopt;
  if (!drains
      && choose_hosting(options_.shape, stay, before, wishes_) == before)
    return std::nullopt;
  return drains ? leaving_text() : "ranks move";
}

void authority::freeze(moment now, std::string cause, authority_output& out) {
  cause_ = std::move(cause);
  phase_ = authority_phase::freezing;
  frozen_at_ = now;
  order_all(out);
}

bool authority::is_able(moment now, const seat& of) const {
  return !of.has_ended && of.has_promised(record_.epoch.number)
         && of.last.stage == member_stage::frozen
         && now - of.heard < options_.silent_after;
}

/// Who has promised and is heard may take its time to come to rest. Others are
/// awaited for as long as they may be silent, and at least `accused_after`.
bool authority::is_awaited(moment now, const seat& of) const {
  if (of.has_ended || is_able(now, of))
    return false;
  if (of.has_promised(record_.epoch.number))
    return now - of.heard < options_.silent_after
           && now - frozen_at_ < options_.rest_within;
  const auto least = frozen_at_ + options_.accused_after;
  const auto most = std::min(of.heard, frozen_at_) + options_.silent_after;
  return now < (of.is_accused ? least : std::max(least, most));
}

/// No step of the old epoch can begin any more, as all hosts must vote for it:
/// one has promised not to, or none may vote.
bool authority::is_old_epoch_over(moment now) const {
  const auto number = record_.epoch.number;
  if (number == 0)
    return true;
  const auto hosts = hosts_of(record_.epoch.hosting);
  const auto has_promised = [&](member_id host) {
    return seats_.find(host)->has_promised(number);
  };
  const auto is_over = [&](member_id host) {
    const auto* of = seats_.find(host);
    return has_promised(host) || of->has_ended || of->lease_end <= now;
  };
  return std::ranges::all_of(hosts, is_over)
         || (!options_.waits_for_leases
             && std::ranges::any_of(hosts, has_promised));
}

void authority::count_losses(moment now, authority_output& out) {
  for (auto& each : seats_) {
    if (each.is_counted_lost || !is_member(each.member)
        || is_released(each.member) || is_able(now, each)
        || is_awaited(now, each))
      continue;
    each.is_counted_lost = true;
    const auto todo = history_.add_loss(now, each.member);
    if (todo == remedy::stop) {
      ends_ = history_.stop_reason();
      if (!options_.ends_in_epoch || !record_.epoch.ends.empty())
        return stop(now, ends_, out);
    }
    if (todo == remedy::restart) {
      out.restarts.push_back(each.member);
      restarting_.push_back(each.member);
    }
  }
}

std::vector<member_id> authority::able_members(moment now) const {
  std::vector<member_id> able;
  for (const auto& each : seats_)
    if (is_able(now, each))
      able.push_back(each.member);
  return able;
}

/// Those that are to host ranks; all, if all are about to leave.
std::vector<member_id> authority::candidates(
  const std::vector<member_id>& able) const {
  auto stay = able;
  std::erase_if(
    stay, [&](member_id member) { return is_draining(*seats_.find(member)); });
  return stay.empty() ? able : stay;
}

/// The member itself, if it is back; no_member: its process has not come again.
member_id authority::replacement_of(moment now, member_id lost) const {
  auto found = no_member;
  for (const auto& each : seats_)
    if ((each.last.replaces == lost || each.member == lost)
        && is_able(now, each))
      found = each.member;
  return found;
}

bool authority::waits_for_restarts(moment now) const {
  return now - frozen_at_ < options_.policy.restart_patience
         && std::ranges::any_of(restarting_, [&](member_id lost) {
              return replacement_of(now, lost) == no_member;
            });
}

bool authority::may_form(moment now) const {
  return !able_members(now).empty() && !waits_for_restarts(now)
         && is_old_epoch_over(now)
         && std::ranges::none_of(
           seats_, [&](const seat& each) { return is_awaited(now, each); });
}

/// A link that stays broken would end every epoch soon after it has begun.
void authority::leave_out_worst(moment now) {
  if (!std::exchange(is_link_broken_, false)
      || frozen_at_ - begun_at_ > options_.silent_after) {
    broken_epochs_ = 0;
    for (auto& each : seats_)
      each.broken_links = 0;
  } else if (++broken_epochs_ >= options_.most_broken_epochs) {
    const auto worst = std::max_element(
      seats_.begin(), seats_.end(), [](const seat& a, const seat& b) {
        return std::pair(a.broken_links, a.member)
               < std::pair(b.broken_links, b.member);
      });
    worst->unfit_until = now + options_.unfit_for;
    worst->broken_links = 0;
  }
}

std::vector<member_id> authority::without_unfit(
  moment now, const std::vector<member_id>& able) const {
  auto fit = able;
  std::erase_if(
    fit, [&](member_id member) { return seats_.find(member)->is_unfit(now); });
  if (fit.empty() || fit == able)
    return able;
  const auto hosting = choose_hosting_of(now, fit);
  return choose_step_of(fit, hosting).step == choose_step_of(able, hosting).step
           ? fit
           : able;
}

/// A process that was started again has the ranks that it had.
hosting_map authority::choose_hosting_of(
  moment now, const std::vector<member_id>& members) const {
  auto previous = record_.epoch.hosting;
  for (const auto lost : restarting_)
    std::ranges::replace(previous, lost, replacement_of(now, lost));
  return choose_hosting(options_.shape, candidates(members), previous, wishes_);
}

step_choice authority::choose_step_of(const std::vector<member_id>& members,
                                      const hosting_map& hosting) const {
  std::vector<member_copies> copies;
  for (const auto member : members)
    copies.push_back({member, seats_.find(member)->last.copies});
  auto readable = record_.checkpoint_step;
  if (record_.epoch.number == 0)
    readable = std::max(readable, options_.first_step);
  return choose_step(options_.shape, copies, hosting,
                     readable < 0 ? std::nullopt : std::optional(readable));
}

void authority::form_epoch(moment now, authority_output& out) {
  count_losses(now, out);
  if (phase_ != authority_phase::freezing || !may_form(now))
    return;
  leave_out_worst(now);
  epoch next{
    .number = record_.epoch.number + 1, .cause = cause_, .ends = ends_};
  next.members = without_unfit(now, able_members(now));
  next.hosting = choose_hosting_of(now, next.members);
  const auto stay = candidates(next.members);
  std::ranges::set_difference(next.members, stay,
                              std::back_inserter(next.released));
  next.released =
    unneeded_members(options_.shape, next, options_.keeps_snapshots);
  const auto choice = choose_step_of(next.members, next.hosting);
  if (!choice.step)
    return stop_for_lost(now, choice.lost_ranks, out);
  next.from_step = *choice.step;
  next.givers = choice.givers;
  store_epoch(now, std::move(next), out);
}

/// A member that is heard, or may still have a lease, may come back with what
/// is missing.
void authority::stop_for_lost(moment now,
                              const std::vector<std::int32_t>& ranks,
                              authority_output& out) {
  const auto may_return = [&](const seat& each) {
    return !each.has_ended && !is_able(now, each)
           && (each.lease_end > now
               || now - each.heard < options_.silent_after);
  };
  if (std::ranges::none_of(seats_, may_return))
    stop(now,
         fmt::format("{}{}no copy is left of the states of ranks {}", ends_,
                     ends_.empty() ? "" : ", and ", fmt::join(ranks, ", ")),
         out);
}

void authority::store_epoch(moment now, epoch next, authority_output& out) {
  auto changed = record_;
  changed.epoch = std::move(next);
  if (!store(now, std::move(changed)))
    return;
  for (auto& each : seats_)
    each.is_accused = each.is_counted_lost = false;
  wishes_ = {};
  cause_.clear();
  restarting_.clear();
  begun_at_ = now;
  phase_ = authority_phase::preparing;
  order_all(out);
}

bool authority::all_ready() const {
  return std::ranges::all_of(record_.epoch.members, [&](member_id member) {
    const auto& last = seats_.find(member)->last;
    return last.epoch == record_.epoch.number
           && (last.stage == member_stage::ready
               || last.stage == member_stage::running);
  });
}

void authority::begin(moment now, authority_output& out) {
  begun_at_ = now;
  phase_ = authority_phase::running;
  order_all(out);
}

void authority::stop(moment now, std::string reason, authority_output& out) {
  auto changed = record_;
  changed.stop_reason = std::move(reason);
  if (!store(now, std::move(changed)))
    return;
  phase_ = authority_phase::stopped;
  order_all(out);
}

/// Whether the record is stored now. If that is not known, it is taken over
/// again, whichever it is.
bool authority::store(moment now, job_record next) {
  ++next.revision;
  next.failures = history_.failures(now);
  const auto result = store_.swap(next);
  if (result == swap_result::stored)
    record_ = std::move(next);
  else if (phase_ != authority_phase::starting)
    phase_ = result == swap_result::conflict ? authority_phase::deposed
                                             : authority_phase::starting;
  return result == swap_result::stored;
}

}  // namespace troupe::membership
