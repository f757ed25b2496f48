#include "troupe/monitors/live/event_json.hpp"

#include <algorithm>

#include "troupe/monitors/live/json_archive.hpp"

namespace troupe {

namespace {

using nlohmann::json;

template <class T>
T read(const json& value, const char* name) {
  T made;
  read_json(value, name, made);
  return made;
}

template <std::size_t... Indices>
event event_at(std::size_t index, const json& value,
               std::index_sequence<Indices...>) {
  event made;
  ((index == Indices
      ? read_json(value, event_names[Indices], made.emplace<Indices>())
      : void()),
   ...);
  return made;
}

}  // namespace

json json_of(const event& what) {
  auto made = std::visit([](const auto& kind) { return to_json(kind); }, what);
  made["event"] = event_names[what.index()];
  return made;
}

event event_of(const json& value) {
  const auto name = text_of(value, "event");
  const auto found = std::ranges::find(event_names, name);
  if (found == event_names.end())
    fail(error_code::malformed_text, "an event of an unknown kind");
  return event_at(static_cast<std::size_t>(found - event_names.begin()), value,
                  std::make_index_sequence<event_names.size()>{});
}

json json_of(const event_source& source) {
  return to_json(source);
}
event_source event_source_of(const json& value) {
  return read<event_source>(value, "source");
}

json json_of(const tensor_record& record) {
  return to_json(record);
}
tensor_record record_of(const json& value) {
  return read<tensor_record>(value, "tensors");
}

json json_of(const tensor_statistics& statistics) {
  return to_json(statistics);
}
tensor_statistics statistics_of(const json& value) {
  return read<tensor_statistics>(value, "statistics");
}

}  // namespace troupe
