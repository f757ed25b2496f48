#include "troupe/actors/rank/collective_ops.hpp"

#include "troupe/actors/reduction/device_collectives.hpp"
#include "troupe/base/error.hpp"

namespace troupe {

void collective_ops::begin(const step_pointer& step) {
  step_ = step;
  asked_.clear();
  awaited_.clear();
}

bool collective_ops::start(op_launched& answer) {
  const auto owner = instance_of(step_->plan->ops[answer.op]);
  const auto stage = owner.stage;
  // A reduction that could not be recorded hands on no tensors.
  answer.outputs.resize(2);
  if (!setup_.reduces) {
    keep(answer.op, {answer.serial, owner, setup_.data_rank,
                     std::move(answer.outputs[0]), answer.end, answer.ready});
    return true;
  }
  reduce_gradients request{answer.serial,
                           owner,
                           setup_.data_rank,
                           std::move(answer.outputs[0]),
                           std::move(answer.outputs[1]),
                           setup_.device ? setup_.device->on() : nullptr,
                           answer.ready,
                           step_->recorded};
  if (!setup_.links || !setup_.links->reduces(stage)) {
    asked_.emplace(owner, answer.op);
    ports_.reduce(std::move(request));
    return false;
  }
  auto known = reducers_.find(stage);
  if (known == reducers_.end())
    known =
      reducers_
        .emplace(stage,
                 reducer_core{make_device_collectives(setup_.links, stage), 1})
        .first;
  for (auto& reduced : known->second.on(std::move(request)))
    keep(answer.op, std::move(reduced));
  return true;
}

std::uint32_t collective_ops::on(gradients_reduced message) {
  const auto asked = asked_.extract(message.owner);
  if (asked.empty())
    fail(error_code::internal, "stage {} asked for no reduction",
         message.owner.stage);
  keep(asked.mapped(), std::move(message));
  return asked.mapped();
}

void collective_ops::keep(std::uint32_t op, gradients_reduced message) {
  const auto& reduction = step_->plan->ops[op];
  if (message.ready && reduction.stream == stream_kind::compute)
    awaited_.push_back(message.ready);
  values_.put(weight_gradient_of(reduction),
              {.tensors = std::move(message.gradients),
               .ready = std::move(message.ready),
               .sent = message.sent});
}

void collective_ops::add_waits(const plan_op& op, run_op& request) {
  if (op.stream == stream_kind::compute)
    request.after = std::exchange(awaited_, {});
}

std::optional<held_value> collective_ops::take_unread(stage_instance stage) {
  const value name{value_kind::weight_gradient, stage.stage, stage.stage,
                   stage.copy};
  return values_.has(name) ? std::optional{values_.take(name)} : std::nullopt;
}

}  // namespace troupe
