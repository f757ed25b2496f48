#include "troupe/monitors/sinks/json_lines_sink.hpp"

#include <nlohmann/json.hpp>

#include "troupe/engine/device/clock.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/json_number.hpp"
#include "troupe/monitors/phase_name.hpp"

namespace troupe {

namespace {

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

class json_sink final : public sink {
 public:
  explicit json_sink(const std::string& path) : file_(path) {}

  void write(const metrics_record& record) override {
    auto line = line_at(record.source);
    line["metrics"] = values_of(record);
    for (const auto& each : record.histograms)
      line["histograms"][each.name] = histogram(each.statistics);
    put(line);
  }

  void write(const alert& alert) override {
    auto line = line_at(alert.source);
    line["alert"] = alert.text;
    line["monitor"] = alert.monitor;
    put(line);
  }

 private:
  void put(const json& line) {
    constexpr auto replace = json::error_handler_t::replace;
    file_.write(line.dump(-1, ' ', false, replace) + "\n");
  }

  append_file file_;
};

}  // namespace

sink_pointer json_lines_sink(const std::string& path) {
  return std::make_shared<json_sink>(path);
}

}  // namespace troupe
