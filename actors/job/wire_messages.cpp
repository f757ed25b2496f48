#include "troupe/actors/job/wire_messages.hpp"

#include <fmt/format.h>

#include <utility>

#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

std::vector<tensor_record>* records_of(event& what) {
  auto* tensors = std::get_if<tensors_event>(&what);
  return tensors ? &tensors->tensors : nullptr;
}

/// Empty if they are equal.
template <class Value>
std::string differ(const char* what, const Value& there, const Value& here) {
  return there == here ? std::string{}
                       : fmt::format("{}: {} in process 0, {} in the other",
                                     what, there, here);
}

std::string difference(const plan_shape& a, const plan_shape& b) {
  for (auto text :
       {differ("schedule", a.schedule, b.schedule),
        differ("ranks", a.ranks, b.ranks), differ("stages", a.stages, b.stages),
        differ("copies of each stage", a.copies, b.copies),
        differ("microbatches", a.microbatches, b.microbatches),
        differ("slices", a.slices, b.slices),
        differ("updates wait for a norm of all gradients", a.global_norm,
               b.global_norm)})
    if (!text.empty())
      return text;
  return {};
}

}  // namespace

std::string difference(const remote_begin& leader, const remote_begin& own) {
  const auto& a = leader.settings;
  const auto& b = own.settings;
  for (auto text :
       {differ("step number", a.step, b.step),
        differ("phase (0: training, 1: validation, 2: inference)",
               static_cast<int>(a.phase), static_cast<int>(b.phase)),
        differ("steps so far, with evaluations", leader.serial, own.serial),
        difference(leader.shape, own.shape),
        differ(
          "hash of the plan's ops and messages, which depend on the "
          "schedule's lanes, the model's links between stages and sharding",
          leader.plan, own.plan),
        differ("learning rate", a.learning_rate, b.learning_rate),
        differ("loss scale", a.loss_scale, b.loss_scale),
        differ("first microbatch", a.first_microbatch, b.first_microbatch),
        differ("skip_update", a.skip_update, b.skip_update)})
    if (!text.empty())
      return text;
  return {};
}

frame to_frame(const control_message& message) {
  return {frame_type::control, to_wire(message), {}};
}

frame to_frame(event message) {
  auto made = to_frame(control_message(message));
  if (auto* records = records_of(message))
    for (const auto& record : *records)
      made.tensors.push_back(can_travel(record.tensor)
                               ? record.tensor.cpu().resolve_neg().contiguous()
                               : at::Tensor{});
  return made;
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
  stage_tensors message{read_envelope(what.head), std::move(what.tensors)};
  if (message.header.by_device == message.header.tensors.empty()
      || (message.header.by_device && !message.tensors.empty()))
    wire_reader::refuse(
      "tensors both in the message and from device to device");
  return message;
}

envelope read_envelope(std::string_view head) {
  return from_wire<envelope>(head);
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

frame to_frame(const credit_back& message) {
  return {frame_type::credit, to_wire(message), {}};
}

}  // namespace troupe
