#include "troupe/actors/rank/collective_ops.hpp"

#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

void collective_ops::begin(const step_pointer& step) {
  step_ = step;
  asked_.clear();
  known_.clear();
  after_.clear();
}

bool collective_ops::launched(const op_launched& answer) {
  const auto stage = step_->plan->ops[answer.op].stage;
  if (answer.ended)
    known_.emplace(
      stage, gradients_reduced{answer.serial, stage, answer.end, answer.ready});
  const auto known = known_.find(stage);
  if (known == known_.end()) {
    asked_.emplace(stage, answer.op);
    return false;
  }
  note(answer.op, known->second.ready);
  return true;
}

std::optional<std::uint32_t> collective_ops::on(
  const gradients_reduced& message, std::optional<std::uint32_t> launching) {
  const auto asked = asked_.extract(message.stage);
  const auto is_asking = [&] {
    const auto& op = step_->plan->ops[*launching];
    return op.kind == plan_op_kind::reduce && op.stage == message.stage;
  };
  if ((asked.empty() && !(launching && is_asking()))
      || !known_.emplace(message.stage, message).second)
    fail(error_code::internal, "stage {} asked for no reduction",
         message.stage);
  if (asked.empty())
    return std::nullopt;
  note(asked.mapped(), message.ready);
  return asked.mapped();
}

void collective_ops::note(std::uint32_t op, const event_handle& ready) {
  if (ready && step_->plan->ops[op].stream == stream_kind::compute)
    after_.push_back(ready);
}

void collective_ops::add_waits(const plan_op& op, run_op& request,
                               op_record& record) {
  if (op.stream == stream_kind::compute)
    request.after = std::exchange(after_, {});
  if (op.kind != plan_op_kind::gradient_norm)
    return;
  const auto known = known_.find(op.stage);
  if (known == known_.end())
    return;
  record.ready = known->second.sent;
  if (known->second.ready)
    request.after.push_back(known->second.ready);
}

std::vector<event_handle> collective_ops::ready() const {
  std::vector<event_handle> all;
  for (const auto& [stage, answer] : known_)
    if (answer.ready)
      all.push_back(answer.ready);
  return all;
}

}  // namespace troupe
