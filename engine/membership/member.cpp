#include "troupe/engine/membership/member.hpp"

#include <algorithm>
#include <utility>

namespace troupe::membership {

member::member(member_options options, moment now)
  : options_(options), next_report_(now) {}

member_output member::tick(moment now) {
  member_output out;
  if (now >= next_report_)
    report(now, out);
  return out;
}

member_output member::receive(moment now, const authority_order& order) {
  member_output out;
  if (order.member != options_.self || stage_ == member_stage::left)
    return out;
  renew_lease(order.answers);
  const auto before = std::pair(stage_, promise_);
  if (!follow(order, out))
    ++refused_;
  take_due_steps(now, out);
  if (before != std::pair(stage_, promise_))
    report(now, out);
  return out;
}

bool member::follow(const authority_order& order, member_output& out) {
  switch (order.kind) {
    case order_kind::go_on:
      return true;
    case order_kind::freeze:
      return freeze(order.epoch.number, out);
    case order_kind::prepare:
      return prepare(order.epoch, out);
    case order_kind::begin:
      return begin(order.epoch.number, out);
    case order_kind::leave:
      out.leaves = true;
      break;
    case order_kind::stop:
      out.stops_job = order.reason;
  }
  stage_ = member_stage::left;
  return true;
}

bool member::freeze(std::int64_t number, member_output& out) {
  if (number < epoch_.number || number <= promise_)
    return false;
  promise_ = number;
  if (stage_ == member_stage::frozen)
    return true;
  out.stops_steps = stage_ != member_stage::freezing;
  stage_ = member_stage::freezing;
  return true;
}

bool member::prepare(const membership::epoch& next, member_output& out) {
  if (stage_ != member_stage::frozen || next.number <= promise_
      || !std::ranges::binary_search(next.members, options_.self))
    return false;
  stage_ = member_stage::preparing;
  epoch_ = next;
  promise_ = next.number - 1;
  problem_.reset();
  copies_.clear();
  commit_ = {};
  out.prepares = true;
  return true;
}

bool member::begin(std::int64_t number, member_output& out) {
  if (stage_ != member_stage::ready || number != epoch_.number)
    return false;
  stage_ = member_stage::running;
  commit_ = step_commit(epoch_, options_.self);
  out.begins = true;
  return true;
}

member_output member::receive(moment now, const step_vote& vote) {
  member_output out;
  if (!commit_.receive(vote))
    ++refused_;
  take_due_steps(now, out);
  return out;
}

member_output member::receive(moment now, const step_decision& decision) {
  member_output out;
  if (!commit_.receive(decision))
    ++refused_;
  take_due_steps(now, out);
  return out;
}

member_output member::stopped(moment now, std::vector<held_copy> copies) {
  member_output out;
  if (stage_ != member_stage::freezing)
    return out;
  stage_ = member_stage::frozen;
  copies_ = std::move(copies);
  report(now, out);
  return out;
}

member_output member::loaded(moment now, std::int64_t epoch) {
  member_output out;
  if (stage_ != member_stage::preparing || epoch != epoch_.number)
    return out;
  stage_ = member_stage::ready;
  report(now, out);
  return out;
}

member_output member::prepared(moment now, std::int64_t step,
                               std::int64_t stored_step) {
  member_output out;
  commit_.prepare(step, stored_step);
  take_due_steps(now, out);
  return out;
}

member_output member::fail(moment now, trouble problem) {
  member_output out;
  const auto is_released = [&](member_id member) {
    return std::ranges::count(epoch_.released, member) > 0;
  };
  const auto is_expected =
    stage_ == member_stage::running && problem.kind == trouble_kind::link_broken
    && (is_released(problem.peer) || is_released(options_.self));
  if (problem.epoch != epoch_.number || problem_ || is_expected)
    return out;
  problem_ = std::move(problem);
  report(now, out);
  return out;
}

void member::checkpoint_saved(std::int64_t step) {
  checkpoint_step_ = std::max(checkpoint_step_, step);
}

member_output member::drain(moment now) {
  member_output out;
  wants_to_leave_ = true;
  report(now, out);
  return out;
}

void member::renew_lease(std::int64_t serial) {
  const auto& sent = sent_[static_cast<std::size_t>(serial) % sent_.size()];
  if (serial > 0 && sent.serial == serial)
    lease_end_ =
      std::max(lease_end_, sent.at + options_.lease - options_.lease_margin);
}

/// A member without a certain lease keeps what is due until it has one.
void member::take_due_steps(moment now, member_output& out) {
  if (stage_ != member_stage::running || !is_leased(now))
    return;
  out.vote = commit_.take_vote();
  if (out.vote && leader() == options_.self)
    commit_.receive(*out.vote);
  out.decision = commit_.take_decision();
  out.applies = commit_.take_applicable();
}

void member::report(moment now, member_output& out) {
  ++serial_;
  sent_[static_cast<std::size_t>(serial_) % sent_.size()] = {serial_, now};
  next_report_ = now + options_.report_every;
  out.report =
    member_report{options_.self,     serial_, epoch_.number,    stage_,
                  promise_,          copies_, checkpoint_step_, wants_to_leave_,
                  options_.replaces, problem_};
}

}  // namespace troupe::membership
