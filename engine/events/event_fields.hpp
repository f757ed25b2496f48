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
void fields(Archive& archive, event_source& v) {
  archive("step", v.step);
  archive("phase", v.phase);
  archive("data_rank", v.data_rank);
  archive("rank", v.rank);
  archive("stage", v.stage);
  archive("microbatch", v.microbatch);
  archive("slice", v.slice);
  archive.within_job(v.epoch);
}

template <class Archive>
void fields(Archive& archive, op_record& v) {
  archive("op", v.op);
  archive("sequence", v.sequence);
  archive("ready", v.ready);
  archive("begin", v.begin);
  archive("end", v.end);
  archive("left", v.left);
  archive("arrived", v.arrived);
  archive("host_begin", v.host_begin);
  archive("host_end", v.host_end);
}

template <class Archive>
void fields(Archive& archive, ops_event& v) {
  archive("source", v.source);
  archive("ops", v.ops);
}

template <class Archive>
void fields(Archive& archive, message_record& v) {
  archive("message", v.message);
  archive("bytes", v.bytes);
  archive("sent", v.sent);
  archive("left", v.left);
  archive("arrived", v.arrived);
  archive("taken", v.taken);
  archive("wait", v.wait);
}

template <class Archive>
void fields(Archive& archive, messages_event& v) {
  archive("source", v.source);
  archive("messages", v.messages);
}

template <class Archive>
void fields(Archive& archive, memory_event& v) {
  archive("source", v.source);
  archive("resident_bytes", v.resident_bytes);
  archive("peak_resident_bytes", v.peak_resident_bytes);
  archive("machine_bytes", v.machine_bytes);
}

template <class Archive>
void fields(Archive& archive, named_value& v) {
  archive("name", v.name);
  archive("value", v.value);
  archive("count", v.count);
}

template <class Archive>
void fields(Archive& archive, step_event& v) {
  archive("source", v.source);
  archive("losses", v.losses);
  archive("metrics", v.metrics);
  archive("gradient_norm", v.gradient_norm);
  archive("learning_rate", v.learning_rate);
  archive("loss_scale", v.loss_scale);
  archive("updated", v.updated);
  archive("tokens", v.tokens);
  archive("begin", v.begin);
  archive("end", v.end);
  archive("resident_bytes", v.resident_bytes);
  archive("observed", v.observed);
  archive("observe_seconds", v.observe_seconds);
  archive("monitor_seconds", v.monitor_seconds);
}

template <class Archive>
void fields(Archive& archive, tensor_statistics& v) {
  archive("count", v.count);
  archive("nans", v.nans);
  archive("infs", v.infs);
  archive("zeros", v.zeros);
  archive("fp16_overflows", v.fp16_overflows);
  archive("fp16_underflows", v.fp16_underflows);
  archive("bf16_overflows", v.bf16_overflows);
  archive("bf16_underflows", v.bf16_underflows);
  archive("max_abs", v.max_abs);
  archive("min_abs", v.min_abs);
  archive("mean", v.mean);
  archive("squares", v.squares);
  archive("instances", v.instances);
  archive("instance_mean_sum", v.instance_mean_sum);
  archive("instance_variance_sum", v.instance_variance_sum);
  archive("histogram", v.histogram);
}

/// Without the handle of the tensor.
template <class Archive>
void fields(Archive& archive, tensor_record& v) {
  tensor_owner owner = v.owner ? *v.owner : tensor_owner{};
  archive("kind", v.kind);
  archive("content", v.content);
  archive("name", owner.name);
  archive("class", owner.class_name);
  archive("index", v.index);
  archive("inner", v.inner);
  archive("part", v.part);
  archive("call", v.call);
  archive("dimensions", v.dimensions);
  archive("dtype", v.dtype);
  archive("statistics", v.statistics);
  if constexpr (Archive::reads)
    v.owner = std::make_shared<const tensor_owner>(std::move(owner));
}

template <class Archive>
void fields(Archive& archive, tensors_event& v) {
  archive("source", v.source);
  archive("backward", v.backward);
  archive("samples", v.samples);
  archive("tensors", v.tensors);
  archive.within_job(v.for_exempt);
}

template <class Archive>
void fields(Archive& archive, slow_load_event& v) {
  archive("source", v.source);
  archive("seconds", v.seconds);
}

template <class Archive>
void fields(Archive& archive, failure_event& v) {
  archive("source", v.source);
  archive("op", v.op);
  archive("reason", v.reason);
}

template <class Archive>
void fields(Archive& archive, dropped_event& v) {
  archive("source", v.source);
  archive("count", v.count);
}

}  // namespace troupe
