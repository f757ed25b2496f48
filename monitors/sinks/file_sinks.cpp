#include "troupe/monitors/sinks/file_sinks.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "troupe/base/json.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/phase_name.hpp"

namespace troupe {

namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos)
    return field;
  std::string text = "\"";
  for (const auto c : field)
    text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

/// Without the sign that some NaNs have.
std::string decimal(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

using json = nlohmann::ordered_json;

/// Without json's own look for a name among those before, which would cost
/// milliseconds for a thousand.
json values_of(const metrics_record& record) {
  json::object_t values;
  for (const auto& each : record.values)
    values.emplace_back(each.name, json_number<json>(each.value));
  return values;
}

json histogram(const tensor_statistics& statistics) {
  json bins = json::object();
  for (std::size_t i = 0;
       statistics.histogram && i < statistics.histogram->size(); ++i)
    if (const auto count = (*statistics.histogram)[i])
      bins[std::to_string(static_cast<int>(i) - 150)] = count;
  return {{"zeros", statistics.zeros}, {"bins", bins}};
}

json line_at(const event_source& source) {
  return {{"step", source.step},
          {"phase", phase_name(source.phase)},
          {"time", wall_seconds()}};
}

}  // namespace

sink_pointer csv_sink(const std::string& path) {
  const auto file = std::make_shared<append_file>(path);
  file->write("step,phase,name,value\r\n");
  return callback_sink([file](const metrics_record& record) {
    std::string rows;
    for (const auto& each : record.values)
      rows += fmt::format("{},{},{},{}\r\n", record.source.step,
                          phase_name(record.source.phase), quoted(each.name),
                          decimal(each.value));
    file->write(rows);
  });
}

sink_pointer json_lines_sink(const std::string& path) {
  const auto put = [file = std::make_shared<append_file>(path)](
                     const json& line) { file->write(json_text(line) + "\n"); };
  return callback_sink(
    [put](const metrics_record& record) {
      auto line = line_at(record.source);
      line["metrics"] = values_of(record);
      for (const auto& each : record.histograms)
        line["histograms"][each.name] = histogram(each.statistics);
      put(line);
    },
    [put](const alert& alert) {
      auto line = line_at(alert.source);
      line["alert"] = alert.text;
      line["monitor"] = alert.monitor;
      put(line);
    });
}

}  // namespace troupe
