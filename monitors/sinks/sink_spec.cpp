#include "troupe/monitors/sinks/sink_spec.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/events/globs.hpp"
#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/monitors/http/http_address.hpp"
#include "troupe/monitors/settings.hpp"
#include "troupe/monitors/sinks/prometheus_sink.hpp"
#include "troupe/monitors/sinks/tensorboard_sink.hpp"
#include "troupe/monitors/sinks/text_sinks.hpp"

namespace troupe {

TROUPE_FIELDS(terminal_options, match, top)

namespace {

terminal_options terminal_of(const std::string& text) {
  const auto options = settings("sink terminal", text).all<terminal_options>();
  if (!options.match.empty())
    require_globs(options.match);
  return options;
}

sink_pointer make_terminal(const std::string& text) {
  return terminal_sink(terminal_of(text));
}

struct prometheus_spec {
  std::string address;
  std::optional<std::string> token_file;
};

prometheus_spec prometheus_spec_of(const std::string& text) {
  const auto comma = std::min(text.find(','), text.size());
  prometheus_spec spec{text.substr(0, comma), {}};
  settings arguments("sink prometheus",
                     text.substr(std::min(comma + 1, text.size())));
  arguments("token_file", spec.token_file);
  arguments.require_all_read();
  return spec;
}

prometheus_options prometheus_of(const std::string& text) {
  const auto spec = prometheus_spec_of(text);
  prometheus_options options;
  options.address = spec.address;
  if (spec.token_file)
    options.token = read_secret(*spec.token_file);
  return options;
}

/// Throws `io` unless files can be made in the folder, or the folder itself.
/// Leaves nothing behind.
void require_folder(const std::string& folder) {
  std::error_code problem;
  std::filesystem::path there(folder);
  while (!there.empty() && !std::filesystem::exists(there, problem))
    there = problem ? std::filesystem::path{} : there.parent_path();
  if (problem)
    fail(error_code::io, "{}: {}", folder, problem.message());
  auto probe = (there.empty() ? "." : there.string()) + "/probe.XXXXXX";
  if (::mkdtemp(probe.data()) == nullptr)
    fail(error_code::io, "{}: can't be written: {}", folder,
         std::strerror(errno));
  ::rmdir(probe.c_str());
}

void require_prometheus(const std::string& text) {
  const auto options = prometheus_of(text);
  require_servable(options.address, options.token,
                   "a token by token_file=FILE");
}

/// Where a sink goes on, and what it is served with.
struct sink_place {
  std::int64_t resumed = 0;
  http_site_pointer site;
};

template <auto make>
sink_pointer at_step(const std::string& text, const sink_place& place) {
  return make(text, place.resumed);
}

struct sink_kind {
  const char* name;
  const char* form;
  const char* help;
  bool needs_more;
  sink_pointer (*make)(const std::string&, const sink_place&);
  void (*require)(const std::string&);
};

constexpr std::array kinds{
  sink_kind{"terminal", "terminal[:match=GLOBS,top=N]",
            "alerts, and of matching metrics the N largest (10)", false,
            [](const std::string& text, const sink_place&) {
              return make_terminal(text);
            },
            [](const std::string& text) { make_terminal(text); }},
  sink_kind{"json", "json:FILE", "JSON lines of metrics and alerts", true,
            at_step<json_lines_sink>, require_writable},
  sink_kind{"csv", "csv:FILE", "metrics as step,phase,name,value", true,
            at_step<csv_sink>, require_writable},
  sink_kind{"tensorboard", "tensorboard:FOLDER",
            "settings, scalars and histograms", true, at_step<tensorboard_sink>,
            require_folder},
  sink_kind{"prometheus", "prometheus:HOST:PORT[,token_file=FILE]",
            "the latest values and counts of alerts at /metrics", true,
            [](const std::string& text, const sink_place& place) {
              auto options = prometheus_of(text);
              options.site = place.site;
              return prometheus_sink(options);
            },
            require_prometheus},
};

struct chosen_sink {
  const sink_kind* kind;
  std::string more;  // behind the name's colon
};

[[noreturn]] void refuse_name(const std::string& name) {
  const auto similar = did_you_mean(name, sink_names());
  if (!similar.empty())
    fail(error_code::invalid_argument, "unknown sink '{}'{}", name, similar);
  fail(error_code::invalid_argument, "unknown sink '{}'; known sinks are:\n{}",
       name, sink_help());
}

chosen_sink chosen(const std::string& spec) {
  const auto name = spec.substr(0, spec.find(':'));
  const auto more = spec.substr(std::min(name.size() + 1, spec.size()));
  const auto* found = std::ranges::find(kinds, name, &sink_kind::name);
  if (found == kinds.end())
    refuse_name(name);
  if (found->needs_more && more.empty())
    fail(error_code::invalid_argument, "sink {}: write {}", name, found->form);
  return {found, more};
}

}  // namespace

sink_pointer make_sink(const std::string& spec, std::int64_t resumed,
                       const http_site_pointer& site) {
  const auto [kind, more] = chosen(spec);
  return kind->make(more, {resumed, site});
}

void require_sink(const std::string& spec) {
  const auto [kind, more] = chosen(spec);
  kind->require(more);
}

std::string sink_output(const std::string& spec) {
  const auto [kind, more] = chosen(spec);
  return kind->require == &require_writable ? more : std::string{};
}

std::string sink_input(const std::string& spec) {
  const auto [kind, more] = chosen(spec);
  return kind->require == &require_prometheus
           ? prometheus_spec_of(more).token_file.value_or("")
           : std::string{};
}

std::vector<std::string> sink_names() {
  std::vector<std::string> names;
  for (const auto& each : kinds)
    names.emplace_back(each.name);
  return names;
}

std::string sink_help() {
  std::string help;
  for (const auto& each : kinds)
    help += fmt::format("  {:40} {}\n", each.form, each.help);
  return help;
}

}  // namespace troupe
