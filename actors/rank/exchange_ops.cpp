#include "troupe/actors/rank/exchange_ops.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "troupe/actors/reduction/device_collectives.hpp"
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

void exchange_ops::begin(const step_pointer& step, lane_executor& executor) {
  step_ = step;
  executor_ = &executor;
  states_.assign(step->plan->messages.size(), 0);
  arrived_.clear();
  if (norm_ && norm_->serial == step_->serial)
    executor_->norm_arrived();
  else
    norm_.reset();
  asked_.clear();
  awaited_.clear();
  gathered_.clear();
}

void exchange_ops::post(std::uint32_t receive) {
  states_[static_cast<std::size_t>(step_->plan->ops[receive].message)] |=
    posted;
}

void exchange_ops::send(const plan_op& op, std::int64_t now) {
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

void exchange_ops::on(stage_tensors message) {
  require_expected(message);
  auto& state = states_[static_cast<std::size_t>(message.header.message)];
  if ((state & seen) != 0)
    fail(error_code::mismatch, "rank {} got the {} twice", setup_.rank,
         summary(message.header));
  state |= seen;
  arrived_.push_back(std::move(message));
}

void exchange_ops::require_expected(const stage_tensors& message) const {
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
std::vector<std::uint32_t> exchange_ops::complete() {
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

bool exchange_ops::start(op_launched& answer) {
  const auto owner = instance_of(step_->plan->ops[answer.op]);
  const auto stage = owner.stage;
  const bool sums = answer.work.kind == collective_kind::tied_sum;
  if (!setup_.reduces && !sums) {
    keep(answer.op, {answer.serial, owner, setup_.data_rank,
                     std::move(answer.work.tensors), answer.end, answer.ready});
    return true;
  }
  collective_request request{answer.serial,
                             owner,
                             setup_.data_rank,
                             std::move(answer.work),
                             setup_.device ? setup_.device->on() : nullptr,
                             answer.ready,
                             step_->recorded};
  const bool by_device =
    setup_.links
    && (sums ? setup_.links->sums_tied(setup_.data_rank, owner.copy)
             : setup_.links->reduces(stage));
  if (!by_device) {
    asked_.emplace(owner, answer.op);
    ports_.reduce(std::move(request));
    return false;
  }
  for (auto& reduced : reducer_of(owner, sums).on(std::move(request)))
    keep(answer.op, std::move(reduced));
  return true;
}

reducer_core& exchange_ops::reducer_of(stage_instance owner, bool sums) {
  const auto key =
    sums ? stage_instance{none, owner.copy} : stage_instance{owner.stage, 0};
  auto known = reducers_.find(key);
  if (known == reducers_.end()) {
    auto calls = sums ? make_tied_device_collectives(
                   setup_.links, setup_.data_rank, owner.copy)
                      : make_device_collectives(setup_.links, owner.stage);
    known = reducers_.emplace(key, reducer_core{std::move(calls), 1}).first;
  }
  return known->second;
}

std::uint32_t exchange_ops::on(collective_result message) {
  const auto asked = asked_.extract(message.owner);
  if (asked.empty())
    fail(error_code::internal, "stage {} asked for no collective",
         message.owner.stage);
  keep(asked.mapped(), std::move(message));
  return asked.mapped();
}

void exchange_ops::on(const norm_known& message) {
  if ((step_ && message.serial < step_->serial)
      || (norm_ && norm_->serial == message.serial))
    return;
  norm_ = message;
  if (step_ && message.serial == step_->serial)
    executor_->norm_arrived();
}

void exchange_ops::keep(std::uint32_t op, collective_result message) {
  const auto& call = step_->plan->ops[op];
  if (message.ready && call.stream == stream_kind::compute)
    awaited_.push_back(message.ready);
  if (message.ready && call.kind == plan_op_kind::gather)
    gathered_[message.owner] = message.ready;
  for_each_output(*step_->plan, call, [&](const value& made) {
    values_.put(made, {.tensors = std::move(message.tensors),
                       .ready = std::move(message.ready),
                       .sent = message.sent});
  });
}

void exchange_ops::add_waits(const plan_op& op, run_op& request,
                             op_record& record) {
  if (op.kind == plan_op_kind::update && norm_
      && norm_->serial == step_->serial) {
    request.norm = norm_;
    if (setup_.waits_for_norm)
      record.ready = norm_->sent;
  }
  if (op.stream != stream_kind::compute)
    return;
  std::ranges::move(std::exchange(awaited_, {}),
                    std::back_inserter(request.after));
  if (auto gathered = take_gathered(instance_of(op)))
    request.after.push_back(std::move(gathered));
}

event_handle exchange_ops::take_gathered(stage_instance stage) {
  auto found = gathered_.extract(stage);
  return found ? std::move(found.mapped()) : nullptr;
}

std::optional<held_value> exchange_ops::take_unread(stage_instance stage) {
  const value name{value_kind::weight_gradient, stage.stage, stage.stage,
                   stage.copy};
  return values_.has(name) ? std::optional{values_.take(name)} : std::nullopt;
}

}  // namespace troupe
