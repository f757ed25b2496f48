#include "troupe/monitors/spec/monitor_spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/monitors/budget.hpp"
#include "troupe/monitors/settings.hpp"
#include "troupe/monitors/stability.hpp"
#include "troupe/monitors/tensors/gap.hpp"
#include "troupe/monitors/tensors/gradient_dump.hpp"
#include "troupe/monitors/tensors/overflow.hpp"
#include "troupe/monitors/tensors/retro.hpp"
#include "troupe/monitors/timing/throughput.hpp"
#include "troupe/monitors/timing/timeline.hpp"

namespace troupe {

TROUPE_FIELDS(gap_options, every, match, histogram, sample, seed)
TROUPE_FIELDS(gradient_dump_options, folder, start, end, every, save_first_n,
              match)
TROUPE_FIELDS(overflow_options, frames, trace, abort_after, underflow_share,
              stop, every, match, reading)
TROUPE_FIELDS(stability_options, window, rolling, sigmas)
TROUPE_FIELDS(timeline_files, svg, trace, steps, anomalies)
TROUPE_FIELDS(throughput_options, every, peak_flops, straggler)
TROUPE_FIELDS(retro_options, folder, steps, match, tensors, nonfinite, max_abs,
              loss_factor, dumps)
TROUPE_FIELDS(budget_options, share, longest)

namespace {

monitor make_gap(settings& arguments, const monitor_context& context) {
  return gap_monitor(arguments.all<gap_options>(), context.sink);
}

/// Two steps' gradients: one's wait while the other's are written.
std::int64_t bytes_of_gradients(const monitor_context& context) {
  const auto replicas =
    context.run_plan ? context.lanes / context.run_plan->ranks() : 1;
  return 2 * std::int64_t{sizeof(float)} * context.parameters * replicas;
}

monitor make_gradient_dump(settings& arguments,
                           const monitor_context& context) {
  constexpr double gib = 1 << 30;
  gradient_dump_options options;
  options.held_bytes =
    std::max(options.held_bytes, bytes_of_gradients(context));
  auto held_gib = static_cast<double>(options.held_bytes) / gib;
  arguments("held_gib", held_gib);
  options = arguments.all(options);
  if (!(held_gib > 0 && held_gib < 1e6))
    fail(error_code::invalid_argument,
         "gradient_dump: held_gib is {}; use a size above 0", held_gib);
  options.held_bytes = std::llround(held_gib * gib);
  require_writable_folder(options.folder);
  return gradient_dump_monitor(options);
}

monitor make_overflow(settings& arguments, const monitor_context& context) {
  overflow_options options;
  options.print = context.print;
  return overflow_monitor(arguments.all(options), context.sink);
}

monitor make_stability(settings& arguments, const monitor_context& context) {
  return stability_monitor(arguments.all<stability_options>(), context.sink);
}

monitor make_throughput(settings& arguments, const monitor_context& context) {
  throughput_options options;
  options.parameters = context.parameters;
  return throughput_monitor(arguments.all(options), context.sink);
}

monitor make_timeline(settings& arguments, const monitor_context& context) {
  const auto files = arguments.all<timeline_files>();
  if (files.svg.empty() && files.trace.empty())
    fail(error_code::invalid_argument,
         "monitor timeline: nothing to write; give svg={0} or trace={0}",
         context.folder ? "true" : "FILE");
  for (const auto& path : {files.svg, files.trace})
    if (!path.empty())
      require_writable(path);
  return timeline_monitor(files);
}

monitor make_retro(settings& arguments, const monitor_context& context) {
  const auto options = arguments.all<retro_options>();
  require_writable_folder(options.folder);
  return retro_monitor(options, context.sink);
}

monitor make_budget(settings& arguments, const monitor_context& context) {
  return budget_monitor(arguments.all<budget_options>(), context.lanes,
                        context.observe_every, context.sink);
}

/// A setting that says where something is written: a file, or the folder
/// above the one where it is.
struct output {
  const char* key = nullptr;
  const char* below = "";
  const char* file = "";  // its name where the spec may not name it
};

struct entry {
  const char* name;
  monitor (*make)(settings&, const monitor_context&);
  const char* settings;
  const char* what;
  std::array<output, 2> outputs = {};
};

constexpr std::array entries{
  entry{"gap", make_gap, "every=1 match=* histogram=false sample=0 seed=0",
        "gradient, activation and parameter statistics"},
  entry{"gradient_dump",
        make_gradient_dump,
        "folder=. start=0 end= every=1 save_first_n= match=* held_gib=",
        "gradients as safetensors files",
        {{{"folder", "/gradients/"}}}},
  entry{"overflow", make_overflow,
        "match=* every=1 frames=21 trace= abort_after= underflow_share=0 "
        "stop=true reading=watch",
        "the first NaN or infinity, and the module calls before it; stops the "
        "run, unless a dynamic loss scale handles the overflow; watches what "
        "leaves the ops, and on a hit runs the step again to read all tensors; "
        "reading=full reads them in each step"},
  entry{"stability", make_stability, "window=128 rolling=10000 sigmas=6",
        "spikes of the loss and the gradient norm"},
  entry{"throughput", make_throughput, "every=1 peak_flops=0 straggler=1.25",
        "tokens per second, MFU, memory, stragglers"},
  entry{"timeline",
        make_timeline,
        "svg= trace= steps=32 anomalies=false",
        "a picture of the last step, a Perfetto trace of the last steps",
        {{{"svg", "", "/timeline.svg"}, {"trace", "", "/trace.json"}}}},
  entry{"retro",
        make_retro,
        "folder=. steps=8 match=* tensors=false nonfinite=true max_abs=0 "
        "loss_factor=0 dumps=4",
        "the statistics of the last steps, written when a rule fires",
        {{{"folder", "/retro/"}}}},
  entry{"budget", make_budget, "share=0.02 longest=1000",
        "limits the cost of monitors to a share of the step time"},
};

struct chosen_monitor {
  const entry* kind;
  settings from;
};

[[noreturn]] void refuse_name(const std::string& name) {
  const auto names = monitor_names();
  const auto similar = did_you_mean(name, names);
  if (!similar.empty())
    fail(error_code::invalid_argument, "unknown monitor '{}'{}", name, similar);
  fail(error_code::invalid_argument,
       "unknown monitor '{}'; known monitors are {}", name,
       fmt::join(names, ", "));
}

chosen_monitor chosen(const std::string& spec) {
  const auto colon = std::min(spec.find(':'), spec.size());
  const auto name = spec.substr(0, colon);
  const auto* found = std::ranges::find(
    entries, name, [](const entry& each) { return std::string(each.name); });
  if (found == entries.end())
    refuse_name(name);
  return {found, settings("monitor " + name,
                          colon < spec.size() ? spec.substr(colon + 1) : "")};
}

/// Has a monitor of somebody else's write in a new folder, if it writes.
void write_elsewhere(const entry& kind, settings& arguments,
                     const std::function<std::string()>& new_folder) {
  for (const auto& each : kind.outputs)
    if (each.key)
      arguments.require_no_place(each.key);
  std::string folder;
  for (const auto& [key, below, file] : kind.outputs) {
    if (!key || (*file && !arguments.has(key)))
      continue;
    if (folder.empty())
      folder = new_folder();
    arguments.set(key, folder + file);
  }
}

}  // namespace

monitor make_monitor(const std::string& spec, const monitor_context& context) {
  auto [kind, arguments] = chosen(spec);
  if (context.folder)
    write_elsewhere(*kind, arguments, context.folder);
  return kind->make(arguments, context);
}

std::vector<std::string> monitor_outputs(const std::string& spec) {
  auto [kind, arguments] = chosen(spec);
  std::vector<std::string> paths;
  for (const auto& [key, below, file] : kind->outputs) {
    std::string path = *below ? "." : "";
    if (key)
      arguments(key, path);
    if (!path.empty())
      paths.push_back(path + below);
  }
  return paths;
}

std::vector<std::string> monitor_names() {
  std::vector<std::string> names;
  for (const auto& each : entries)
    names.emplace_back(each.name);
  return names;
}

std::string monitor_help() {
  std::string text;
  for (const auto& each : entries)
    text += fmt::format("  {:14} {}\n  {:14}   {}\n", each.name, each.what, "",
                        each.settings);
  return text;
}

}  // namespace troupe
