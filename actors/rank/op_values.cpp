#include "troupe/actors/rank/op_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe {

/// A step's values differ in few bits, which are packed before they are mixed.
std::size_t value_store::value_hash::operator()(const value& name) const {
  const auto stages = (static_cast<std::uint64_t>(name.from) << 32)
                      ^ static_cast<std::uint64_t>(name.to);
  const auto rest = (static_cast<std::uint64_t>(name.microbatch) << 32)
                    ^ (static_cast<std::uint64_t>(name.slice) << 16)
                    ^ (static_cast<std::uint64_t>(name.copy) << 8)
                    ^ static_cast<std::uint64_t>(name.kind);
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const auto mixed = (stages * odd ^ rest) * odd;
  return mixed ^ (mixed >> 32);
}

bool value_store::has(const value& name) const {
  return held_.contains(name);
}

void value_store::put(const value& name, held_value held) {
  bool is_new = false;
  if (spare_.empty()) {
    is_new = held_.emplace(name, std::move(held)).second;
  } else {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = name;
    node.mapped() = std::move(held);
    is_new = held_.insert(std::move(node)).inserted;
  }
  if (!is_new)
    fail(error_code::internal, "the {} was made twice", to_text(name));
}

held_value value_store::take(const value& name) {
  auto node = held_.extract(name);
  if (node.empty())
    fail(error_code::internal, "the {} is missing", to_text(name));
  auto held = std::exchange(node.mapped(), {});
  spare_.push_back(std::move(node));
  return held;
}

std::string value_store::left() const {
  constexpr std::size_t most = 4;
  std::vector<value> names;
  for (const auto& [name, held] : held_)
    names.push_back(name);
  std::ranges::sort(names);
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += fmt::format("{}the {}", i == 0 ? "" : ", ", to_text(names[i]));
  if (names.size() > most)
    text += fmt::format(" and {} more", names.size() - most);
  return text;
}

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

void op_values::begin(const step_pointer& step, const data_orders& wanted) {
  step_ = step;
  wanted_ = &wanted;
  tokens_ = 0;
  messages_.clear();
  values_.clear();
  data_.clear();
  asked_.clear();
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
  const auto found = std::ranges::find_if(data_, [&](const held_data& each) {
    return each.is_for(instance_of(forward), forward.microbatch, forward.slice);
  });
  if (found == data_.end())
    fail(error_code::internal, "microbatch {} is missing for stage {}",
         forward.microbatch, forward.stage);
  const bool of_all = found->slice == loaded_data::all_slices;
  if (of_all && forward.slice + 1 < step_->plan->slices)
    return *found;
  auto taken = std::move(*found);
  data_.erase(found);
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
  });
  if (reads_data(op))
    take_data(op, request, record);
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
  found.data =
    !found.value && reads_data(op)
    && std::ranges::none_of(data_, [&](const held_data& each) {
         return each.is_for(instance_of(op), op.microbatch, op.slice);
       });
  return found;
}

}  // namespace troupe
