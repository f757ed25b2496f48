#include "troupe/actors/rank/op_values.hpp"

#include <algorithm>
#include <iterator>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

namespace {

void announce(const tensor_list& tensors, envelope& e) {
  for (const auto& tensor : tensors)
    e.tensors.emplace_back(
      tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined,
      tensor.defined() ? tensor.sizes().vec() : std::vector<std::int64_t>{});
}

const message& message_of(const plan& of, std::int32_t number) {
  return of.messages[static_cast<std::size_t>(number)];
}

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

std::string summary(const envelope& e) {
  return to_text(
    value{.kind = e.backward ? value_kind::gradient : value_kind::activation,
          .from = e.from_stage,
          .to = e.to_stage,
          .copy = e.copy,
          .slice = e.key.slice,
          .microbatch = e.key.microbatch});
}

void op_values::begin(const step_pointer& step, const data_orders& wanted) {
  step_ = step;
  wanted_ = &wanted;
  tokens_ = 0;
  messages_.clear();
  values_.clear();
  data_.clear();
  asked_.clear();
  states_.assign(step->plan->messages.size(), 0);
  arrived_.clear();
  awaited_.clear();
  gathered_.clear();
  if (step->settings.part == step_part::update)
    return;  // which needs no data
  // A step that generates runs a slice of all microbatches before the next one.
  for (const auto& [reader, order] : wanted) {
    const auto ahead = step->settings.generation
                         ? std::ssize(order)
                         : std::int64_t{setup_.prefetch};
    for (std::int64_t i = 0; i < ahead; ++i)
      ask(reader);
  }
}

void op_values::ask(stage_instance reader) {
  const auto& order = wanted_->at(reader);
  auto& asked = asked_[reader];
  if (asked < order.size())
    ports_.want({step_, reader, order[asked++]});
}

void op_values::put(loaded_data message) {
  const auto refuse = [&](const char* why) {
    fail(error_code::internal, "stage {} was handed microbatch {} {}",
         message.reader.stage, message.microbatch, why);
  };
  if (!step_ || message.serial != step_->serial)
    refuse("of another step");
  for (const auto& each : data_)
    if (each.is_for(message.reader, message.microbatch, message.slice))
      refuse("twice");
  data_.push_back({message.reader, message.microbatch, message.sent,
                   std::move(message.data), message.slice});
}

/// Starts the way to the device of all data that is here.
void op_values::bring_data() {
  if (!device_ || step_->recorded)
    return;
  const auto scope = device_.enter();
  for (auto& each : data_)
    if (!std::exchange(each.brought, true))
      each.data = std::make_shared<const microbatch_data>(
        device_.bring(*each.data, each.ready));
}

/// The last slice of a microbatch takes it, and asks for one more.
op_values::held_data op_values::take_data(const plan_op& forward) {
  const auto place = std::ranges::find_if(data_, [&](const held_data& each) {
    return each.is_for(instance_of(forward), forward.microbatch, forward.slice);
  });
  if (place == data_.end())
    fail(error_code::internal, "microbatch {} is missing for stage {}",
         forward.microbatch, forward.stage);
  const bool of_all = place->slice == loaded_data::all_slices;
  if (of_all && forward.slice + 1 < step_->plan->slices)
    return *place;
  auto taken = std::move(*place);
  data_.erase(place);
  if (of_all || taken.slice == 0)  // others don't come from the loader
    ask(taken.reader);
  return taken;
}

bool op_values::reads_data(const plan_op& op) const {
  return op.kind == plan_op_kind::forward
         && setup_.needs_data[static_cast<std::size_t>(op.stage)];
}

/// The record tells of the input that came last.
void op_values::take(const plan_op& op, run_op& request, op_record& record,
                     std::int64_t waits_since) {
  if (is_compute(op.kind))
    bring_data();
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
    if (taken.present.defined())
      request.present = std::move(taken.present);
  });
  if (reads_data(op))
    take_data(op, request, record);
  if (op.stream != stream_kind::compute)
    return;
  std::ranges::move(std::exchange(awaited_, {}),
                    std::back_inserter(request.after));
  if (auto gathered = take_gathered(instance_of(op)))
    request.after.push_back(std::move(gathered));
}

void op_values::take_data(const plan_op& op, run_op& request,
                          op_record& record) {
  auto held = take_data(op);
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
  if (answer.ready && is_joint(op.kind) && op.stream == stream_kind::compute)
    awaited_.push_back(answer.ready);
  if (answer.ready && op.kind == plan_op_kind::gather)
    gathered_[instance_of(op)] = answer.ready;
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
                         .own = nullptr,
                         .present = std::move(answer.present),
                         .ready = answer.ready,
                         .sent = answer.end});
  });
}

op_values::missing_input op_values::missing(const plan_op& op) const {
  missing_input result;
  std::uint8_t index = 0;
  for_each_input(*step_->plan, op, [&](const value& input) {
    if (!result.value && !values_.has(input))
      result.value = index;
    ++index;
  });
  result.data =
    !result.value && reads_data(op)
    && std::ranges::none_of(data_, [&](const held_data& each) {
         return each.is_for(instance_of(op), op.microbatch, op.slice);
       });
  return result;
}

void op_values::post(std::uint32_t receive) {
  states_[static_cast<std::size_t>(step_->plan->ops[receive].message)] |=
    posted;
}

void op_values::send(const plan_op& op, std::int64_t now) {
  const auto& plan = *step_->plan;
  auto held = values_.take(moved_by(op));
  auto& tensors = held.tensors;
  auto& ready = held.ready;
  const auto& receive = plan.ops[message_of(plan, op.message).receive];
  const auto target = plan.placement.rank_of(receive.stage, receive.copy);
  const bool far = device_ && !setup_.layout.is_here(setup_.data_rank, target);
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

void op_values::on(stage_tensors message) {
  require_expected(message);
  auto& state = states_[static_cast<std::size_t>(message.header.message)];
  if ((state & seen) != 0)
    fail(error_code::mismatch, "rank {} got the {} twice", setup_.rank,
         summary(message.header));
  state |= seen;
  arrived_.push_back(std::move(message));
}

void op_values::require_expected(const stage_tensors& message) const {
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
  const bool has_message =
    e.message >= 0 && e.message < std::ssize(plan.messages);
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
  if (!has_message || !is_planned())
    fail(error_code::mismatch, "the plan has no message {} with the {}",
         e.message, summary(e));
}

/// Calls that match what another device's rank sends are made in the order of
/// the announcements, as it has made its own.
std::vector<std::uint32_t> op_values::complete() {
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
                    {},
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

event_handle op_values::take_gathered(stage_instance stage) {
  auto gathered = gathered_.extract(stage);
  return gathered ? std::move(gathered.mapped()) : nullptr;
}

std::optional<held_value> op_values::take_unread(stage_instance stage) {
  const value name{value_kind::weight_gradient, stage.stage, stage.stage,
                   stage.copy};
  return values_.has(name) ? std::optional{values_.take(name)} : std::nullopt;
}

void op_values::require_nothing_left() const {
  const auto values = values_.left();
  if (!values.empty() || !arrived_.empty() || !data_.empty())
    fail(error_code::internal,
         "rank {}: at the end of the step {} messages and {} microbatches of "
         "data were left{}{}",
         setup_.rank, arrived_.size(), data_.size(),
         values.empty() ? "" : ", and ", values);
}

}  // namespace troupe
