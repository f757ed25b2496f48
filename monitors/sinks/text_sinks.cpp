#include "troupe/monitors/sinks/text_sinks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/base/json.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/append_file.hpp"

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
          {"phase", to_text(source.phase)},
          {"time", wall_seconds()}};
}

}  // namespace

sink_pointer csv_sink(const std::string& path, std::int64_t resumed) {
  const auto file =
    std::make_shared<append_file>(path, lines_with_step(resumed, ""));
  if (file->is_empty())
    file->write("step,phase,name,value\r\n");
  return callback_sink([file](const metrics_record& record) {
    std::string rows;
    for (const auto& each : record.values)
      rows += fmt::format("{},{},{},{}\r\n", record.source.step,
                          to_text(record.source.phase), quoted(each.name),
                          decimal(each.value));
    file->write(rows);
  });
}

sink_pointer json_lines_sink(const std::string& path, std::int64_t resumed) {
  const auto put = [file = std::make_shared<append_file>(
                      path, lines_with_step(resumed, "\"step\":"))](
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

namespace {

constexpr auto whole = std::string::npos;

std::string place_text(const event_source& source) {
  return source.phase == phase::training
           ? fmt::format("step {}", source.step)
           : fmt::format("{} at step {}", to_text(source.phase), source.step);
}

/// A NaN is larger than all numbers.
std::pair<bool, double> size_of(const metric& one) {
  return std::isnan(one.value) ? std::pair(true, 0.0)
                               : std::pair(false, std::abs(one.value));
}

/// One line stands beside the monitor's name, several under it.
std::string block_of(const alert& alert) {
  const auto name = printable(alert.monitor, whole);
  if (alert.text.find('\n') == whole)
    return fmt::format("{}: {}\n", name, printable(alert.text, whole));
  auto block = name + ":\n";
  std::istringstream lines(alert.text);
  for (std::string line; std::getline(lines, line);)
    block += fmt::format("  {}\n", printable(line, whole));
  return block;
}

std::vector<metric> largest(const std::vector<metric>& values,
                            const terminal_options& options) {
  std::vector<metric> found;
  for (const auto& each : values)
    if (matches_glob(options.match, each.name))
      found.push_back(each);
  std::ranges::stable_sort(found, std::ranges::greater{}, size_of);
  found.resize(std::min(found.size(), options.top));
  return found;
}

}  // namespace

sink_pointer terminal_sink(const terminal_options& options) {
  if (options.top == 0)
    throw error(error_code::invalid_argument,
                "terminal: top is 0; use 1 or more, or no match=");
  const auto print =
    [out = options.out,
     mutex = std::make_shared<std::mutex>()](const std::string& text) {
      const std::lock_guard lock(*mutex);
      print_all(out, text);
    };
  return callback_sink(
    [options, print](const metrics_record& record) {
      if (options.match.empty())
        return;
      std::string lines;
      for (const auto& each : largest(record.values, options))
        lines += fmt::format("{} {} {:.6g}\n", place_text(record.source),
                             printable(each.name, whole), each.value);
      print(lines);
    },
    [print, colour = options.colour.value_or(::isatty(::fileno(options.out))
                                             == 1)](const alert& alert) {
      auto block = block_of(alert);
      if (colour)
        block.insert(block.size() - 1, "\033[0m").insert(0, "\033[1;31m");
      print(block);
    });
}

}  // namespace troupe
