#include "troupe/actors/rank/collective_ops.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "troupe/actors/reduction/device_collectives.hpp"
#include "troupe/base/error.hpp"

namespace troupe {

void collective_ops::begin(const step_pointer& step, executed_plan& plan) {
  step_ = step;
  plan_ = &plan;
  if (norm_ && norm_->serial == step_->serial)
    plan_->norm_arrived();
  else
    norm_.reset();
  asked_.clear();
  awaited_.clear();
  gathered_.clear();
}

bool collective_ops::start(op_launched& answer) {
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

reducer_core& collective_ops::reducer_of(stage_instance owner, bool sums) {
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

std::uint32_t collective_ops::on(collective_result message) {
  const auto asked = asked_.extract(message.owner);
  if (asked.empty())
    fail(error_code::internal, "stage {} asked for no collective",
         message.owner.stage);
  keep(asked.mapped(), std::move(message));
  return asked.mapped();
}

void collective_ops::on(const norm_known& message) {
  if ((step_ && message.serial < step_->serial)
      || (norm_ && norm_->serial == message.serial))
    return;
  norm_ = message;
  if (step_ && message.serial == step_->serial)
    plan_->norm_arrived();
}

void collective_ops::keep(std::uint32_t op, collective_result message) {
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

void collective_ops::add_waits(const plan_op& op, run_op& request,
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

event_handle collective_ops::take_gathered(stage_instance stage) {
  auto found = gathered_.extract(stage);
  return found ? std::move(found.mapped()) : nullptr;
}

std::optional<held_value> collective_ops::take_unread(stage_instance stage) {
  const value name{value_kind::weight_gradient, stage.stage, stage.stage,
                   stage.copy};
  return values_.has(name) ? std::optional{values_.take(name)} : std::nullopt;
}

}  // namespace troupe
