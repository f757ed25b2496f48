#include "troupe/monitors/sinks/prometheus_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "troupe/engine/events/log.hpp"
#include "troupe/monitors/http/http_server.hpp"
#include "troupe/monitors/http/http_site.hpp"

namespace troupe {

namespace {

constexpr const char* alerts_name = "troupe_alerts_total";

bool is_legal(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
         || (c >= '0' && c <= '9') || c == '_';
}

std::string legal_name(const std::string& text) {
  auto name = "troupe_" + text;
  std::ranges::replace_if(
    name, [](char c) { return !is_legal(c); }, '_');
  return name == alerts_name ? name + "_" : name;
}

std::string escaped(char c) {
  switch (c) {
    case '\\':
      return "\\\\";
    case '"':
      return "\\\"";
    case '\n':
      return "\\n";
    default:  // the text has to be UTF-8; names are ASCII
      return static_cast<unsigned char>(c) > 127 ? "?" : std::string(1, c);
  }
}

std::string label(const char* name, const std::string& value) {
  std::string text;
  for (const auto c : value)
    text += escaped(c);
  return fmt::format("{}=\"{}\"", name, text);
}

std::string braced(const std::vector<std::string>& labels) {
  return labels.empty() ? "" : fmt::format("{{{}}}", fmt::join(labels, ","));
}

std::string number(double value) {
  if (std::isnan(value))
    return "NaN";
  if (std::isinf(value))
    return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

using snapshot = std::vector<std::pair<const prometheus_series*, double>>;

template <class Values>
snapshot snapshot_of(const Values& values) {
  snapshot result;
  result.reserve(values.size());
  for (const auto& [series, value] : values)
    result.emplace_back(&series, value);
  return result;
}

void put(std::string& text, const snapshot& values, const char* type,
         const char* help) {
  const std::string* name = nullptr;
  for (const auto& [series, value] : values) {
    if (!name || *name != series->name)
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", series->name,
                          help, type);
    name = &series->name;
    text +=
      fmt::format("{}{} {}\n", series->name, series->labels, number(value));
  }
}

}  // namespace

prometheus_series prometheus_series_of(const std::string& metric, phase phase) {
  std::vector<std::string> labels;
  auto name = metric;
  const auto first = metric.find('/');
  const auto last = metric.rfind('/');
  if (first != last) {
    const auto between = metric.substr(first + 1, last - first - 1);
    const auto cut = between.rfind('/');
    if (cut != std::string::npos)
      labels.push_back(label("kind", between.substr(0, cut)));
    labels.push_back(label("name", between.substr(cut + 1)));
    name = metric.substr(0, first) + metric.substr(last);
  }
  if (phase != phase::training)
    labels.push_back(label("phase", to_text(phase)));
  return {legal_name(name), braced(labels)};
}

void prometheus_table::add(const metrics_record& record) {
  const auto phase = record.source.phase;
  values latest;
  for (const auto& each : record.values)
    latest[prometheus_series_of(each.name, phase)] = each.value;
  latest[prometheus_series_of("step", phase)] =
    static_cast<double>(record.source.step);
  const std::lock_guard lock(mutex_);
  for (const auto& [series, value] : latest)
    gauges_[series] = value;
}

void prometheus_table::add(const alert& alert) {
  const std::lock_guard lock(mutex_);
  ++alerts_[{alerts_name, braced({label("monitor", alert.monitor)})}];
}

std::string prometheus_table::text() const {
  snapshot gauges, alerts;
  {
    const std::lock_guard lock(mutex_);
    gauges = snapshot_of(gauges_);
    alerts = snapshot_of(alerts_);
  }
  std::string text;
  put(text, gauges, "gauge", "The latest value.");
  put(text, alerts, "counter", "Alerts of a monitor.");
  return text;
}

namespace {

/// What serves a table as long as it lives.
struct served_table {
  served_table(const http_options& options, http_site_pointer site)
    : added(site->add({{"GET", "/metrics", access_right::page,
                        at_once([this](const http_request&) {
                          return http_response{
                            200, "text/plain; version=0.0.4; charset=utf-8",
                            table.text()};
                        })}})),
      server(options, std::move(site)) {}

  prometheus_table table;
  const std::shared_ptr<void> added;
  http_server server;
};

}  // namespace

sink_pointer prometheus_sink(const prometheus_options& options) {
  const auto served = std::make_shared<served_table>(
    http_options{.address = options.address, .page_token = options.token},
    options.site ? options.site : std::make_shared<http_site>());
  const auto url = fmt::format("http://{}/metrics", served->server.address());
  if (options.listening)
    options.listening(url);
  else
    log()->info("prometheus: metrics at {}", url);
  const auto add = [served](const auto& what) { served->table.add(what); };
  return callback_sink(add, add);
}

}  // namespace troupe
