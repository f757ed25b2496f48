#pragma once

#include <array>
#include <memory>
#include <utility>

#include "troupe/engine/events/event.hpp"

namespace troupe {

// The fields of what monitors see, in one place for all forms in which it
// travels: binary between the processes of a job (engine/transport), JSON to
// attached clients (monitors/live). An archive is called with a name and a
// member for each field; `within_job` is for fields that clients don't get, and
// `reads` tells the direction. A writing archive does not change the members.

/// Types that JSON writes as rows of their fields, as there are many of them.
template <class T>
inline constexpr bool travels_as_row = false;
template <>
inline constexpr bool travels_as_row<op_record> = true;
template <>
inline constexpr bool travels_as_row<message_record> = true;
template <>
inline constexpr bool travels_as_row<named_value> = true;

/// The names of the events, as `event` lists its alternatives.
inline constexpr std::array event_names{"ops",     "messages", "memory",
                                        "tensors", "step",     "slow_load",
                                        "failure", "dropped"};
static_assert(event_names.size() == std::variant_size_v<event>);

template <class Archive>
void fields(Archive& with, event_source& v) {
  with("step", v.step);
  with("phase", v.phase);
  with("data_rank", v.data_rank);
  with("rank", v.rank);
  with("stage", v.stage);
  with("microbatch", v.microbatch);
  with("slice", v.slice);
  with.within_job(v.epoch);
}

template <class Archive>
void fields(Archive& with, op_record& v) {
  with("op", v.op);
  with("sequence", v.sequence);
  with("ready", v.ready);
  with("begin", v.begin);
  with("end", v.end);
  with("left", v.left);
  with("arrived", v.arrived);
  with("host_begin", v.host_begin);
  with("host_end", v.host_end);
}

template <class Archive>
void fields(Archive& with, ops_event& v) {
  with("source", v.source);
  with("ops", v.ops);
}

template <class Archive>
void fields(Archive& with, message_record& v) {
  with("message", v.message);
  with("bytes", v.bytes);
  with("sent", v.sent);
  with("left", v.left);
  with("arrived", v.arrived);
  with("taken", v.taken);
  with("wait", v.wait);
}

template <class Archive>
void fields(Archive& with, messages_event& v) {
  with("source", v.source);
  with("messages", v.messages);
}

template <class Archive>
void fields(Archive& with, memory_event& v) {
  with("source", v.source);
  with("resident_bytes", v.resident_bytes);
  with("peak_resident_bytes", v.peak_resident_bytes);
  with("machine_bytes", v.machine_bytes);
}

template <class Archive>
void fields(Archive& with, named_value& v) {
  with("name", v.name);
  with("value", v.value);
  with("count", v.count);
}

template <class Archive>
void fields(Archive& with, step_event& v) {
  with("source", v.source);
  with("losses", v.losses);
  with("metrics", v.metrics);
  with("gradient_norm", v.gradient_norm);
  with("learning_rate", v.learning_rate);
  with("loss_scale", v.loss_scale);
  with("updated", v.updated);
  with("tokens", v.tokens);
  with("begin", v.begin);
  with("end", v.end);
  with("resident_bytes", v.resident_bytes);
  with("observed", v.observed);
  with("observe_seconds", v.observe_seconds);
  with("monitor_seconds", v.monitor_seconds);
}

template <class Archive>
void fields(Archive& with, tensor_statistics& v) {
  with("count", v.count);
  with("nans", v.nans);
  with("infs", v.infs);
  with("zeros", v.zeros);
  with("fp16_overflows", v.fp16_overflows);
  with("fp16_underflows", v.fp16_underflows);
  with("bf16_overflows", v.bf16_overflows);
  with("bf16_underflows", v.bf16_underflows);
  with("max_abs", v.max_abs);
  with("min_abs", v.min_abs);
  with("mean", v.mean);
  with("squares", v.squares);
  with("instances", v.instances);
  with("instance_mean_sum", v.instance_mean_sum);
  with("instance_variance_sum", v.instance_variance_sum);
  with("histogram", v.histogram);
}

/// Without the handle of the tensor.
template <class Archive>
void fields(Archive& with, tensor_record& v) {
  tensor_owner owner = v.owner ? *v.owner : tensor_owner{};
  with("kind", v.kind);
  with("content", v.content);
  with("name", owner.name);
  with("class", owner.class_name);
  with("index", v.index);
  with("inner", v.inner);
  with("part", v.part);
  with("call", v.call);
  with("dimensions", v.dimensions);
  with("dtype", v.dtype);
  with("statistics", v.statistics);
  if constexpr (Archive::reads)
    v.owner = std::make_shared<const tensor_owner>(std::move(owner));
}

template <class Archive>
void fields(Archive& with, tensors_event& v) {
  with("source", v.source);
  with("backward", v.backward);
  with("samples", v.samples);
  with("tensors", v.tensors);
  with.within_job(v.for_exempt);
}

template <class Archive>
void fields(Archive& with, slow_load_event& v) {
  with("source", v.source);
  with("seconds", v.seconds);
}

template <class Archive>
void fields(Archive& with, failure_event& v) {
  with("source", v.source);
  with("op", v.op);
  with("reason", v.reason);
}

template <class Archive>
void fields(Archive& with, dropped_event& v) {
  with("source", v.source);
  with("count", v.count);
}

}  // namespace troupe
