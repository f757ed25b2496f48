#include "troupe/monitors/sinks/sink_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>
#include <vector>

#include "troupe/monitors/sinks/csv_sink.hpp"
#include "troupe/monitors/sinks/json_lines_sink.hpp"
#include "troupe/monitors/sinks/prometheus_sink.hpp"
#include "troupe/monitors/sinks/tensorboard_sink.hpp"
#include "troupe/monitors/sinks/terminal_sink.hpp"
#include "troupe/schedules/error.hpp"
#include "troupe/schedules/parse_number.hpp"

namespace troupe {

namespace {

using settings = std::vector<std::pair<std::string, std::string>>;

/// What stands before the first `key=` has an empty key.
settings settings_of(const std::string& text) {
  settings made;
  for (std::size_t from = 0; from < text.size();) {
    const auto to = std::min(text.find(',', from), text.size());
    const auto part = text.substr(from, to - from);
    const auto equals = part.find('=');
    if (equals != std::string::npos)
      made.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    else if (made.empty())
      made.emplace_back("", part);
    else
      made.back().second += "," + part;
    from = to + 1;
  }
  return made;
}

[[noreturn]] void fail_for(const char* name, const std::string& setting,
                           const char* known) {
  fail(error_code::invalid_argument, "sink {}: no setting '{}'; there is {}",
       name, setting, known);
}

std::size_t count_of(const std::string& text) {
  const auto count = parse_number<std::size_t>(text);
  if (!count)
    fail(error_code::invalid_argument, "sink terminal: top is '{}', no number",
         text);
  return *count;
}

sink_pointer make_terminal(const std::string& text) {
  terminal_options options;
  for (const auto& [key, value] : settings_of(text))
    if (key == "match")
      options.match = value;
    else if (key == "top")
      options.top = count_of(value);
    else
      fail_for("terminal", key.empty() ? value : key, "match, top");
  return terminal_sink(options);
}

std::string token_in(const std::string& path) {
  std::ifstream in(path);
  std::string token;
  if (!(in >> token))
    fail(error_code::io, "{}: there is no token to read", path);
  return token;
}

sink_pointer make_prometheus(const std::string& text) {
  prometheus_options options;
  for (const auto& [key, value] : settings_of(text))
    if (key.empty())
      options.address = value;
    else if (key == "token_file")
      options.token = token_in(value);
    else
      fail_for("prometheus", key, "token_file");
  return prometheus_sink(options);
}

struct sink_kind {
  const char* name;
  const char* form;
  const char* help;
  bool needs_more;
  sink_pointer (*make)(const std::string&);
};

constexpr std::array kinds{
  sink_kind{"terminal", "terminal[:match=GLOBS,top=N]",
            "alerts, and of matching metrics the N largest (10)", false,
            make_terminal},
  sink_kind{"json", "json:FILE", "JSON lines of metrics and alerts", true,
            json_lines_sink},
  sink_kind{"csv", "csv:FILE", "metrics as step,phase,name,value", true,
            csv_sink},
  sink_kind{"tensorboard", "tensorboard:FOLDER", "scalars and histograms", true,
            tensorboard_sink},
  sink_kind{"prometheus", "prometheus:HOST:PORT[,token_file=FILE]",
            "the latest values and counts of alerts at /metrics", true,
            make_prometheus},
};

}  // namespace

sink_pointer make_sink(const std::string& spec) {
  const auto name = spec.substr(0, spec.find(':'));
  const auto more = spec.substr(std::min(name.size() + 1, spec.size()));
  const auto found = std::ranges::find(kinds, name, &sink_kind::name);
  if (found == kinds.end())
    fail(error_code::invalid_argument, "no sink '{}'; there are:\n{}", name,
         sink_help());
  if (found->needs_more && more.empty())
    fail(error_code::invalid_argument, "sink {}: write {}", name, found->form);
  return found->make(more);
}

std::string sink_help() {
  std::string help;
  for (const auto& each : kinds)
    help += fmt::format("  {:40} {}\n", each.form, each.help);
  return help;
}

}  // namespace troupe
