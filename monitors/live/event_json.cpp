#include "troupe/monitors/live/event_json.hpp"

#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/phase_name.hpp"

namespace troupe {

namespace {

using nlohmann::json;

json json_of(const std::vector<named_value>& values) {
  auto list = json::array();
  for (const auto& value : values)
    list.push_back(
      {value.name, json_number(value.value), json_number(value.count)});
  return list;
}

std::vector<named_value> values_of(const json& object, const char* name) {
  std::vector<named_value> values;
  for (const auto& each : list_of(object, name)) {
    if (!each.is_array() || each.size() != 3 || !each[0].is_string())
      fail(error_code::malformed_text, "'{}' is no list of named values", name);
    values.push_back({each[0].get<std::string>(), as_number(each[1], name),
                      as_number(each[2], name)});
  }
  return values;
}

json parts_of(const ops_event& what) {
  auto list = json::array();
  for (const auto& op : what.ops)
    list.push_back({op.op, op.sequence, op.ready, op.begin, op.end, op.left,
                    op.arrived, op.host_begin, op.host_end});
  return {{"event", "ops"}, {"ops", std::move(list)}};
}

json parts_of(const messages_event& what) {
  auto list = json::array();
  for (const auto& each : what.messages)
    list.push_back({each.message, each.bytes, each.sent, each.left,
                    each.arrived, each.taken, each.wait});
  return {{"event", "messages"}, {"messages", std::move(list)}};
}

json parts_of(const memory_event& what) {
  return {{"event", "memory"},
          {"resident_bytes", what.resident_bytes},
          {"peak_resident_bytes", what.peak_resident_bytes},
          {"machine_bytes", what.machine_bytes}};
}

json parts_of(const tensors_event& what) {
  auto list = json::array();
  for (const auto& record : what.tensors)
    list.push_back(troupe::json_of(record));
  return {{"event", "tensors"},
          {"backward", what.backward},
          {"samples", what.samples},
          {"tensors", std::move(list)}};
}

json parts_of(const step_event& what) {
  return {{"event", "step"},
          {"losses", json_of(what.losses)},
          {"metrics", json_of(what.metrics)},
          {"gradient_norm", json_number(what.gradient_norm)},
          {"learning_rate", json_number(what.learning_rate)},
          {"loss_scale", json_number(what.loss_scale)},
          {"updated", what.updated},
          {"tokens", what.tokens},
          {"begin", what.begin},
          {"end", what.end},
          {"resident_bytes", what.resident_bytes},
          {"observed", what.observed},
          {"observe_seconds", json_number(what.observe_seconds)},
          {"monitor_seconds", json_number(what.monitor_seconds)}};
}

json parts_of(const slow_load_event& what) {
  return {{"event", "slow_load"}, {"seconds", json_number(what.seconds)}};
}

json parts_of(const failure_event& what) {
  return {{"event", "failure"}, {"op", what.op}, {"reason", what.reason}};
}

json parts_of(const dropped_event& what) {
  return {{"event", "dropped"}, {"count", what.count}};
}

ops_event read_ops(const json& value) {
  ops_event made;
  for (const auto& each : list_of(value, "ops")) {
    if (!each.is_array() || each.size() != 9)
      fail(error_code::malformed_text, "'ops' is no list of executed ops");
    made.ops.push_back({whole_of<std::uint32_t>(each[0], "op"),
                        whole_of<std::uint32_t>(each[1], "sequence"),
                        whole_of<std::int64_t>(each[2], "ready"),
                        whole_of<std::int64_t>(each[3], "begin"),
                        whole_of<std::int64_t>(each[4], "end"),
                        whole_of<std::int64_t>(each[5], "left"),
                        whole_of<std::int64_t>(each[6], "arrived"),
                        whole_of<std::int64_t>(each[7], "host_begin"),
                        whole_of<std::int64_t>(each[8], "host_end")});
  }
  return made;
}

messages_event read_messages(const json& value) {
  messages_event made;
  for (const auto& each : list_of(value, "messages")) {
    if (!each.is_array() || each.size() != 7)
      fail(error_code::malformed_text, "'messages' is no list of messages");
    made.messages.push_back({whole_of<std::int32_t>(each[0], "message"),
                             whole_of<std::int64_t>(each[1], "bytes"),
                             whole_of<std::int64_t>(each[2], "sent"),
                             whole_of<std::int64_t>(each[3], "left"),
                             whole_of<std::int64_t>(each[4], "arrived"),
                             whole_of<std::int64_t>(each[5], "taken"),
                             whole_of<std::int64_t>(each[6], "wait")});
  }
  return made;
}

memory_event read_memory(const json& value) {
  memory_event made;
  read_whole(value, "resident_bytes", made.resident_bytes);
  read_whole(value, "peak_resident_bytes", made.peak_resident_bytes);
  read_whole(value, "machine_bytes", made.machine_bytes);
  return made;
}

tensors_event read_tensors(const json& value) {
  tensors_event made;
  made.backward = flag_of(value, "backward");
  read_whole(value, "samples", made.samples);
  for (const auto& each : list_of(value, "tensors"))
    made.tensors.push_back(record_of(each));
  return made;
}

step_event read_step(const json& value) {
  step_event made;
  made.losses = values_of(value, "losses");
  made.metrics = values_of(value, "metrics");
  made.gradient_norm = number_of(value, "gradient_norm");
  made.learning_rate = number_of(value, "learning_rate");
  made.loss_scale = number_of(value, "loss_scale");
  made.updated = flag_of(value, "updated");
  read_whole(value, "tokens", made.tokens);
  read_whole(value, "begin", made.begin);
  read_whole(value, "end", made.end);
  read_whole(value, "resident_bytes", made.resident_bytes);
  made.observed = flag_of(value, "observed");
  made.observe_seconds = number_of(value, "observe_seconds");
  made.monitor_seconds = number_of(value, "monitor_seconds");
  return made;
}

event read_small(const json& value, const std::string& kind) {
  if (kind == "slow_load")
    return slow_load_event{{}, number_of(value, "seconds")};
  if (kind == "failure")
    return failure_event{{}, text_of(value, "op"), text_of(value, "reason")};
  if (kind == "dropped")
    return dropped_event{
      {}, whole_of<std::int64_t>(field_of(value, "count"), "count")};
  fail(error_code::malformed_text, "an event of an unknown kind");
}

event read_parts(const json& value, const std::string& kind) {
  if (kind == "ops")
    return read_ops(value);
  if (kind == "messages")
    return read_messages(value);
  if (kind == "memory")
    return read_memory(value);
  if (kind == "tensors")
    return read_tensors(value);
  if (kind == "step")
    return read_step(value);
  return read_small(value, kind);
}

phase phase_of(const std::string& name) {
  if (name == "training")
    return phase::training;
  if (name == "validation")
    return phase::validation;
  if (name == "inference")
    return phase::inference;
  fail(error_code::malformed_text, "a phase of an unknown kind");
}

}  // namespace

json json_of(const event_source& source) {
  return {{"step", source.step},           {"phase", phase_name(source.phase)},
          {"data_rank", source.data_rank}, {"rank", source.rank},
          {"stage", source.stage},         {"microbatch", source.microbatch},
          {"slice", source.slice}};
}

event_source event_source_of(const json& value) {
  event_source made;
  read_whole(value, "step", made.step);
  made.phase = phase_of(text_of(value, "phase"));
  read_whole(value, "data_rank", made.data_rank);
  read_whole(value, "rank", made.rank);
  read_whole(value, "stage", made.stage);
  read_whole(value, "microbatch", made.microbatch);
  read_whole(value, "slice", made.slice);
  return made;
}

json json_of(const event& what) {
  auto made = std::visit([](const auto& kind) { return parts_of(kind); }, what);
  made["source"] = json_of(source_of(what));
  return made;
}

event event_of(const json& value) {
  auto made = read_parts(value, text_of(value, "event"));
  const auto source = event_source_of(field_of(value, "source"));
  std::visit([&](auto& kind) { kind.source = source; }, made);
  return made;
}

}  // namespace troupe
