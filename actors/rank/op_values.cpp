#include "troupe/actors/rank/op_values.hpp"

#include "troupe/engine/device/clock.hpp"

namespace troupe {

namespace {

std::int64_t bytes_of(const tensor_list& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

std::shared_ptr<stage_state>& own_state(stage_states& states, value_kind kind) {
  return kind == value_kind::context || kind == value_kind::hosted
           ? states.context
         : kind == value_kind::version  ? states.version
         : kind == value_kind::deferred ? states.deferred
                                        : states.carry;
}

}  // namespace

void op_values::begin(const step_pointer& step) {
  step_ = step;
  tokens_ = 0;
  messages_.clear();
  values_.clear();
}

bool op_values::reads_data(const plan_op& op) const {
  return op.kind == plan_op_kind::forward
         && setup_.needs_data[static_cast<std::size_t>(op.stage)];
}

/// The record tells of the input that came last.
void op_values::take(const plan_op& op, run_op& request, op_record& record,
                     std::int64_t waits_since) {
  if (is_compute(op.kind) && !step_->recorded) {
    const auto scope = device_.enter();
    data_.bring(device_);
  }
  for_each_input(*step_->plan, op, [&](const value& input) {
    auto taken = values_.take(input);
    if (is_own(input.kind)) {
      own_state(request.states, input.kind) = std::move(taken.own);
      if (taken.ready)  // copied on another stream
        request.after.push_back(std::move(taken.ready));
      return;
    }
    if (taken.sent >= record.ready) {
      record.ready = taken.sent;
      record.left = taken.left;
      record.arrived = taken.arrived;
    }
    note_message(taken, waits_since);
    request.ready.push_back(std::move(taken.ready));
    request.inputs.push_back(std::move(taken.tensors));
  });
  if (reads_data(op))
    take_data(op, request, record);
}

void op_values::take_data(const plan_op& op, run_op& request,
                          op_record& record) {
  auto held = data_.take(op);
  if (held.sent > record.ready) {
    record.ready = held.sent;
    record.left = record.arrived = 0;
  }
  // Every microbatch passes it once; in generation each slice has data.
  if (op.stage == 0 && (op.slice == 0 || step_->settings.generation))
    tokens_ += held.data->tokens;
  request.data = std::move(held.data);
  request.data_ready = std::move(held.ready);
}

void op_values::note_message(const held_value& taken,
                             std::int64_t waits_since) {
  if (!step_->settings.tells_messages || taken.message == none)
    return;
  const auto now = now_ns();
  messages_.push_back({taken.message, bytes_of(taken.tensors), taken.sent,
                       taken.left, taken.arrived, now,
                       waits_since == 0 ? 0 : now - waits_since});
}

void op_values::keep(op_launched& answer) {
  std::size_t next = 0;
  const auto& op = step_->plan->ops[answer.op];
  for_each_output(*step_->plan, op, [&](const value& output) {
    if (is_own(output.kind))
      return values_.put(
        output, {.tensors = {},
                 .own = std::move(own_state(answer.states, output.kind)),
                 .ready = is_copy(op.kind) ? answer.ready : nullptr});
    // An op that could not be recorded made none.
    auto tensors = next < answer.outputs.size()
                     ? std::move(answer.outputs[next++])
                     : tensor_list{};
    values_.put(output, {.tensors = std::move(tensors),
                         .ready = answer.ready,
                         .sent = answer.end});
  });
}

op_values::missing_input op_values::missing(const plan_op& op) const {
  missing_input found;
  std::uint8_t index = 0;
  for_each_input(*step_->plan, op, [&](const value& input) {
    if (!found.value && !values_.has(input))
      found.value = index;
    ++index;
  });
  found.data = !found.value && reads_data(op)
               && !data_.has(instance_of(op), op.microbatch, op.slice);
  return found;
}

}  // namespace troupe
