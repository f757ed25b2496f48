#include "troupe/engine/membership/authority.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::membership {

authority::authority(authority_options options, record_store& store)
  : options_(std::move(options)), store_(store), history_(options_.policy) {}

authority_output authority::tick(moment now) {
  authority_output out;
  if (phase_ == authority_phase::starting)
    take_over(now);
  else if (is_confirmed(now))
    advance(now, out);
  return out;
}

/// The authority before may have renewed leases until the record was taken
/// over, which may take long. So its end is only known to be past when this is
/// called the next time.
void authority::take_over(moment now) {
  if (std::exchange(has_record_, false))
    return take_office(now);
  auto found = store_.read();
  if (!found)
    return;
  record_ = *found;
  history_.restore(now, record_.failures);
  ends_ = record_.epoch.ends;
  has_record_ = store(now, *found);
}

/// Each member has a lease of full length: nobody is given up before it has
/// ended. An epoch that runs goes on.
void authority::take_office(moment now) {
  seats_ = {};
  for (const auto member : record_.epoch.members)
    seats_.add(now, member).lease_end = now + options_.lease;
  confirmed_at_ = now;
  phase_ = !record_.stop_reason.empty()    ? authority_phase::stopped
           : record_.epoch.members.empty() ? authority_phase::running
                                           : authority_phase::preparing;
}

/// An authority that was deposed must not renew leases: the next one waits only
/// for those that it knows of, and for as long as those before it may last.
/// While it can't be known, nothing is done and nobody is silent: training goes
/// on and membership waits, as after a pause of this process.
bool authority::is_confirmed(moment now) {
  if (phase_ == authority_phase::starting || phase_ == authority_phase::deposed)
    return false;
  const auto revision = store_.revision();
  if (!revision)
    return false;
  if (*revision != record_.revision) {
    phase_ = authority_phase::deposed;
    return false;
  }
  if (now - confirmed_at_ > options_.silent_after / 2) {
    frozen_at_ = now;
    for (auto& each : seats_)
      each.heard = now;
  }
  confirmed_at_ = now;
  return true;
}

authority_output authority::receive(moment now, const member_report& report) {
  authority_output out;
  if (!is_confirmed(now))
    return out;
  auto& from = seats_.add(now, report.member);
  if (report.serial <= from.last.serial)
    return out;
  from.last = report;
  from.heard = now;
  record_.checkpoint_step =
    std::max(record_.checkpoint_step, report.checkpoint_step);
  note(now, from, out);
  advance(now, out);
  const auto is_in_office =
    phase_ != authority_phase::starting && phase_ != authority_phase::deposed;
  if (auto* still = seats_.find(report.member);
      still != nullptr && is_in_office)
    out.orders.push_back(answer(now, *still));
  return out;
}

authority_output authority::member_ended(moment now, member_id member) {
  if (auto* ended = seats_.find(member))
    ended->has_ended = true;
  return tick(now);
}

authority_output authority::move(moment now, rank_move wish) {
  wishes_.moves.push_back(wish);
  return tick(now);
}

authority_output authority::drain(moment now, member_id member) {
  record_.drained.push_back(member);
  return tick(now);
}

authority_output authority::balance(moment now) {
  wishes_.is_balanced = true;
  return tick(now);
}

/// What a member tells of a problem counts once an epoch.
void authority::note(moment now, seat& from, authority_output& out) {
  const auto& problem = from.last.problem;
  if (!problem || problem->epoch != record_.epoch.number
      || from.noted_epoch == problem->epoch
      || phase_ == authority_phase::stopped)
    return;
  from.noted_epoch = problem->epoch;
  switch (problem->kind) {
    case trouble_kind::link_broken:
      return note_broken_link(from, *problem);
    case trouble_kind::op_failed:
      return note_failed_op(now, from, *problem, out);
    case trouble_kind::fatal:
      stop(now, problem->what, out);
  }
}

void authority::note_broken_link(seat& from, const trouble& problem) {
  is_link_broken_ = true;
  ++from.broken_links;
  cause_ = fmt::format("member {} lost a link", from.member);
  if (auto* peer = seats_.find(problem.peer)) {
    peer->is_accused = true;
    ++peer->broken_links;
    cause_ += fmt::format(" to member {}", problem.peer);
  }
}

/// The first one of an epoch counts: it may have caused the others.
void authority::note_failed_op(moment now, seat& from, const trouble& problem,
                               authority_output& out) {
  if (std::exchange(failed_epoch_, problem.epoch) == problem.epoch)
    return;
  cause_ = problem.what;
  const auto todo = history_.add_failed_op(
    now, from.member, problem.step, problem.what,
    static_cast<std::int32_t>(record_.epoch.members.size()));
  if (todo == remedy::stop)
    return stop(now, history_.stop_reason(), out);
  if (todo != remedy::rehost)
    return;
  const auto& hosting = record_.epoch.hosting;
  for (std::int32_t rank = 0; std::cmp_less(rank, hosting.size()); ++rank)
    if (rank == problem.rank
        || (problem.rank < 0
            && hosting[static_cast<std::size_t>(rank)] == from.member))
      for (const auto member : history_.members_failing(problem.step))
        wishes_.avoided.push_back({rank, member});
}

authority_order authority::answer(moment now, seat& to) {
  auto order = order_for(to);
  // While it is being found out who is there, an old epoch must be able to end.
  if (phase_ != authority_phase::freezing) {
    order.answers = to.last.serial;
    to.lease_end = now + options_.lease;
  }
  return order;
}

authority_order authority::order_for(const seat& to) const {
  authority_order order{.member = to.member};
  const auto number = record_.epoch.number;
  order.epoch.number = number;
  if (phase_ == authority_phase::stopped) {
    order.kind = order_kind::stop;
    order.reason = record_.stop_reason;
  } else if (phase_ != authority_phase::freezing && is_member(to.member)) {
    return order_of_epoch(to);
  } else if (phase_ == authority_phase::running && is_draining(to)) {
    order.kind = order_kind::leave;
  } else if (!to.has_promised(number)) {
    order.kind = order_kind::freeze;
  }
  return order;
}

authority_order authority::order_of_epoch(const seat& to) const {
  authority_order order{.member = to.member};
  order.epoch.number = record_.epoch.number;
  if (phase_ == authority_phase::preparing) {
    if (to.last.epoch < record_.epoch.number) {
      order.kind = order_kind::prepare;
      order.epoch = record_.epoch;
    }
  } else if (is_released(to.member) && is_draining(to)) {
    order.kind = order_kind::leave;
  } else if (to.last.stage == member_stage::ready) {
    order.kind = order_kind::begin;
  }
  return order;
}

void authority::order_all(authority_output& out) const {
  for (const auto& each : seats_)
    if (!each.has_ended)
      if (auto order = order_for(each); order.kind != order_kind::go_on)
        out.orders.push_back(std::move(order));
}

bool authority::is_member(member_id member) const {
  return std::ranges::binary_search(record_.epoch.members, member);
}

bool authority::is_released(member_id member) const {
  return std::ranges::count(record_.epoch.released, member) > 0;
}

bool authority::allows_loss_of(moment now, member_id member) const {
  const auto* of = seats_.find(member);
  const bool is_counted =
    of == nullptr || of->is_counted_lost || !is_member(member);
  return ends_.empty() && phase_ != authority_phase::stopped
         && (is_counted || history_.allows_loss(now));
}

bool authority::is_leaving(member_id member) const {
  const auto* of = seats_.find(member);
  return of != nullptr && is_draining(*of);
}

bool authority::is_draining(const seat& of) const {
  return of.last.wants_to_leave
         || std::ranges::count(record_.drained, of.member) > 0;
}

}  // namespace troupe::membership
