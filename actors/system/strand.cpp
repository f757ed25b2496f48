#include "troupe/actors/system/strand.hpp"

#include <limits>

namespace troupe {

namespace {

/// Hands a member that becomes ready to its strand.
struct gate final : caf::execution_unit {
  gate(caf::actor_system* system, strand& own, caf::execution_unit* unit)
    : caf::execution_unit(system), turns(own), sender(unit) {}
  void exec_later(caf::resumable* member) override {
    turns.push(member, sender);
  }
  strand& turns;
  caf::execution_unit* sender;
};

}  // namespace

strand::strand(caf::actor_system& system) : system_(system), context_(&system) {
  if (auto* scheduler =
        dynamic_cast<spin_sharing_scheduler*>(&system.scheduler()))
    shared_ = &scheduler->data();
}

void strand::push(caf::resumable* member, caf::execution_unit* sender) {
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(member);
    if (std::exchange(scheduled_, true))
      return;
  }
  if (sender)
    sender->exec_later(this);
  else
    system_.scheduler().enqueue(this);
}

/// Null: none is left, and the strand is not scheduled any more.
caf::resumable* strand::take() {
  const std::scoped_lock lock(mutex_);
  if (waiting_.empty()) {
    scheduled_ = false;
    return nullptr;
  }
  auto* member = waiting_.front();
  waiting_.erase(waiting_.begin());
  return member;
}

caf::resumable::resume_result strand::resume(caf::execution_unit* worker,
                                             std::size_t) {
  context_.worker = worker;
  while (auto* member = take()) {
    const auto result =
      member->resume(&context_, std::numeric_limits<std::size_t>::max());
    if (result == resume_later)
      push(member, worker);
    else
      caf::intrusive_ptr_release(member);
    if (shared_ && shared_->keeps_waiting())
      return resume_later;
  }
  return awaiting_message;
}

bool strand_actor::enqueue(caf::mailbox_element_ptr message,
                           caf::execution_unit* sender) {
  gate target(&home_system(), *turns_, sender);
  return caf::event_based_actor::enqueue(std::move(message), &target);
}

}  // namespace troupe
