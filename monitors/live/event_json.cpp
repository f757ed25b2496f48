#include "troupe/monitors/live/event_json.hpp"

#include "troupe/monitors/live/json_archive.hpp"

namespace troupe {

using nlohmann::json;

namespace {

template <class T>
T read(const json& value, const char* name) {
  T made;
  read_json(value, name, made);
  return made;
}

template <class... Kinds>
bool read_kind(std::variant<Kinds...>& made, const std::string& name,
               const json& value) {
  return (
    (name == Kinds::kind
     && (read_json(value, Kinds::kind, made.template emplace<Kinds>()), true))
    || ...);
}

}  // namespace

json json_of(const event& what) {
  return std::visit(
    [](const auto& held) {
      auto made = to_json(held);
      made["event"] = held.kind;
      return made;
    },
    what);
}

event event_of(const json& value) {
  event made;
  if (!read_kind(made, text_of(value, "event"), value))
    fail(error_code::malformed_text, "an event of an unknown kind");
  return made;
}

json json_of(const tensor_record& record) {
  return to_json(record);
}
tensor_record record_of(const json& value) {
  return read<tensor_record>(value, "tensors");
}

json json_of(const alert& what) {
  return to_json(what);
}
alert alert_of(const json& value) {
  return read<alert>(value, "alert");
}

json json_of(const metrics_record& record) {
  return to_json(record);
}
metrics_record metrics_of(const json& value) {
  return read<metrics_record>(value, "metrics");
}

}  // namespace troupe
