#include "troupe/actors/rank/closing_ops.hpp"

namespace troupe {

void closing_ops::begin(const step_pointer& step, executed_plan& plan) {
  step_ = step;
  plan_ = &plan;
  if (norm_ && norm_->serial == step_->serial)
    plan_->norm_arrived();
  else
    norm_.reset();
}

void closing_ops::on(const norm_known& message) {
  if ((step_ && message.serial < step_->serial)
      || (norm_ && norm_->serial == message.serial))
    return;
  norm_ = message;
  if (step_ && message.serial == step_->serial)
    plan_->norm_arrived();
}

void closing_ops::add_norm(const plan_op& op, run_op& request,
                           op_record& record) const {
  if (op.kind != plan_op_kind::update || !norm_
      || norm_->serial != step_->serial)
    return;
  request.norm = norm_;
  if (setup_.waits_for_norm)
    record.ready = norm_->sent;
}

}  // namespace troupe
