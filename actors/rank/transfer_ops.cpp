#include "troupe/actors/rank/transfer_ops.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

namespace troupe {

namespace {

void announce(const tensor_list& tensors, envelope& e) {
  for (const auto& tensor : tensors)
    e.tensors.emplace_back(
      tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined,
      tensor.defined() ? tensor.sizes().vec() : std::vector<std::int64_t>{});
}

const message& message_of(const plan& plan, std::int32_t number) {
  return plan.messages[static_cast<std::size_t>(number)];
}

}  // namespace

std::string summary(const envelope& e) {
  return to_text(
    value{.kind = e.backward ? value_kind::gradient : value_kind::activation,
          .from = e.from_stage,
          .to = e.to_stage,
          .copy = e.copy,
          .slice = e.key.slice,
          .microbatch = e.key.microbatch});
}

void transfer_ops::begin(const step_pointer& step) {
  step_ = step;
  states_.assign(step->plan->messages.size(), 0);
  arrived_.clear();
}

void transfer_ops::post(std::uint32_t receive) {
  states_[static_cast<std::size_t>(step_->plan->ops[receive].message)] |=
    posted;
}

void transfer_ops::send(const plan_op& op, std::int64_t now) {
  const auto& plan = *step_->plan;
  auto held = values_.take(moved_by(op));
  auto& tensors = held.tensors;
  auto& ready = held.ready;
  const auto& receive = plan.ops[message_of(plan, op.message).receive];
  const auto target = plan.placement.rank_of(receive.stage, receive.copy);
  const bool far = device_ && setup_.is_far && setup_.is_far(target);
  if (far && !setup_.links) {
    tensors = device_.to_host(tensors, ready);
    ready = nullptr;
  }
  stage_tensors packed;
  auto& e = packed.header;
  e.run = setup_.run;
  e.serial = step_->serial;
  e.data_rank = setup_.data_rank;
  e.from_stage = op.stage;
  e.to_stage = receive.stage;
  e.copy = op.copy;
  e.key = {op.microbatch, op.slice};
  e.backward = is_gradient(op.stream);
  e.message = op.message;
  e.sent = now;
  if (far && setup_.links) {
    announce(tensors, e);
    setup_.links->send(e, tensors, ready, to_text(plan, op));
    e.by_device = true;
  } else {
    packed.tensors = std::move(tensors);
    packed.ready = std::move(ready);
  }
  ports_.deliver(std::move(packed));
}

void transfer_ops::on(stage_tensors message) {
  require_expected(message);
  auto& state = states_[static_cast<std::size_t>(message.header.message)];
  if ((state & seen) != 0)
    fail(error_code::mismatch, "rank {} got the {} twice", setup_.rank,
         summary(message.header));
  state |= seen;
  arrived_.push_back(std::move(message));
}

void transfer_ops::require_expected(const stage_tensors& message) const {
  const auto& plan = *step_->plan;
  const auto& e = message.header;
  if (e.run != setup_.run || e.data_rank != setup_.data_rank)
    fail(error_code::mismatch,
         "rank {} of replica {} expected a tensor of its own run and replica "
         "and got the {} of replica {}",
         setup_.rank, setup_.data_rank, summary(e), e.data_rank);
  if (e.by_device && !setup_.links)
    fail(error_code::mismatch,
         "the {} comes from a device, and rank {} has none", summary(e),
         setup_.rank);
  const bool known = e.message >= 0 && e.message < std::ssize(plan.messages);
  const auto is_planned = [&] {
    const auto& number = message_of(plan, e.message);
    const auto& send = plan.ops[number.send];
    const auto& receive = plan.ops[number.receive];
    return plan.rank_of(number.receive) == setup_.rank
           && receive.stage == e.to_stage && send.stage == e.from_stage
           && send.copy == e.copy && send.microbatch == e.key.microbatch
           && send.slice == e.key.slice
           && is_gradient(send.stream) == e.backward;
  };
  if (!known || !is_planned())
    fail(error_code::mismatch, "the plan has no message {} with the {}",
         e.message, summary(e));
}

/// Calls that match what another device's rank sends are made in the order of
/// the announcements, as it has made its own.
std::vector<std::uint32_t> transfer_ops::complete() {
  std::vector<std::uint32_t> ended;
  for (auto place = arrived_.begin(); place != arrived_.end();) {
    const auto& e = place->header;
    const auto receive = message_of(*step_->plan, e.message).receive;
    if ((states_[static_cast<std::size_t>(e.message)] & posted) == 0) {
      ++place;
      continue;
    }
    held_value held{std::move(place->tensors),
                    nullptr,
                    std::move(place->ready),
                    e.sent,
                    e.left,
                    place->arrived,
                    e.message,
                    std::move(place->receipt)};
    if (e.by_device)
      held.tensors = setup_.links->receive(e, summary(e), held.ready);
    values_.put(moved_by(step_->plan->ops[receive]), std::move(held));
    ended.push_back(receive);
    place = arrived_.erase(place);
  }
  return ended;
}

}  // namespace troupe
