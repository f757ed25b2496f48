#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

using nlohmann::json;

json json_of(const alert& what) {
  return {{"source", json_of(what.source)},
          {"monitor", what.monitor},
          {"text", what.text}};
}

alert alert_of(const json& value) {
  return {event_source_of(field_of(value, "source")), text_of(value, "monitor"),
          text_of(value, "text")};
}

json json_of(const metrics_record& record) {
  auto values = json::array(), histograms = json::array();
  for (const auto& each : record.values)
    values.push_back({each.name, json_number(each.value)});
  for (const auto& each : record.histograms)
    histograms.push_back({each.name, json_of(each.statistics)});
  return {{"source", json_of(record.source)},
          {"values", std::move(values)},
          {"histograms", std::move(histograms)}};
}

metrics_record metrics_of(const json& value) {
  const auto pairs = [&](const char* list, const auto& add) {
    for (const auto& each : list_of(value, list)) {
      if (!each.is_array() || each.size() != 2 || !each[0].is_string())
        fail(error_code::malformed_text, "'{}' is no list of pairs", list);
      add(each[0].get<std::string>(), each[1]);
    }
  };
  metrics_record made;
  made.source = event_source_of(field_of(value, "source"));
  pairs("values", [&](std::string name, const json& number) {
    const auto read = as_number(number, name);
    made.values.push_back({std::move(name), read});
  });
  pairs("histograms", [&](std::string name, const json& statistics) {
    made.histograms.push_back({std::move(name), statistics_of(statistics)});
  });
  return made;
}

}  // namespace troupe
