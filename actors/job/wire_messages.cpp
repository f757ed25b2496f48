#include "troupe/actors/job/wire_messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

std::vector<tensor_record>* records_of(event& what) {
  auto* tensors = std::get_if<tensors_event>(&what);
  return tensors ? &tensors->tensors : nullptr;
}

/// The names and values of a type's fields, as texts.
class field_texts {
 public:
  static constexpr bool reads = false;
  using list = std::vector<std::pair<std::string, std::string>>;

  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, phase>)
      texts_.emplace_back(name, to_text(value));
    else
      texts_.emplace_back(name, fmt::format("{}", value));
  }
  template <class T>
  static list of(const T& value) {
    field_texts all;
    fields(all, const_cast<T&>(value));  // fields only reads it
    return std::move(all.texts_);
  }

 private:
  list texts_;
};

/// The first field that differs; empty if none does.
template <class T>
std::string difference_of(const T& leader, const T& own) {
  if (to_wire(leader) == to_wire(own))
    return {};
  const auto there = field_texts::of(leader), here = field_texts::of(own);
  const auto [a, b] = std::ranges::mismatch(there, here);
  return a == there.end() ? std::string{}
                          : fmt::format("{}: {} in process 0, {} in the other",
                                        a->first, a->second, b->second);
}

}  // namespace

std::string difference(const remote_begin& leader, const remote_begin& own) {
  if (auto text = difference_of(leader.decision, own.decision); !text.empty())
    return text;
  if (auto text = difference_of(leader.shape, own.shape); !text.empty())
    return text;
  if (leader.plan != own.plan)
    return fmt::format(
      "hash of the plan's ops and messages, which depend on the schedule's "
      "lanes, the model's links between stages and sharding: {} in process 0, "
      "{} in the other",
      leader.plan, own.plan);
  return leader.serial == own.serial
           ? std::string{}
           : fmt::format(
             "steps so far, with evaluations: {} in process 0, {} "
             "in the other",
             leader.serial, own.serial);
}

frame to_frame(const control_message& message) {
  return {frame_type::control, to_wire(message), {}};
}

frame to_frame(event message) {
  auto result = to_frame(control_message(message));
  if (auto* records = records_of(message))
    for (const auto& record : *records)
      result.tensors.push_back(
        can_travel(record.tensor)
          ? record.tensor.cpu().resolve_neg().contiguous()
          : at::Tensor{});
  return result;
}

control_message read_control(frame what) {
  auto message = from_wire<control_message>(what.head);
  if (auto* held = std::get_if<event>(&message))
    if (auto* records = records_of(*held)) {
      if (what.tensors.size() != records->size())
        wire_reader::refuse("other tensors than it announces");
      for (std::size_t i = 0; i < records->size(); ++i)
        (*records)[i].tensor = std::move(what.tensors[i]);
    }
  return message;
}

frame to_frame(stage_tensors message) {
  for (auto& tensor : message.tensors)
    if (tensor.defined())
      tensor = tensor.contiguous();
  if (!message.header.by_device)
    message.header.tensors.clear();
  return {frame_type::tensors, to_wire(message.header),
          std::move(message.tensors)};
}

stage_tensors read_stage_tensors(frame what) {
  stage_tensors message{from_wire<envelope>(what.head),
                        std::move(what.tensors)};
  if (message.header.by_device == message.header.tensors.empty()
      || (message.header.by_device && !message.tensors.empty()))
    wire_reader::refuse(
      "tensors both in the message and from device to device");
  return message;
}

frame to_frame(collective_part message) {
  return {frame_type::part, to_wire(message), {std::move(message.values)}};
}

collective_part read_collective_part(frame what) {
  auto message = from_wire<collective_part>(what.head);
  if (what.tensors.size() != 1 || !what.tensors[0].defined()
      || what.tensors[0].dim() != 1)
    wire_reader::refuse("not one row of gradients");
  message.values = std::move(what.tensors[0]);
  return message;
}

frame to_frame(const chosen_tokens& message) {
  return {frame_type::tokens, to_wire(message), {}};
}

frame to_frame(const credit_back& message) {
  return {frame_type::credit, to_wire(message), {}};
}

}  // namespace troupe
