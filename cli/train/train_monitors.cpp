#include "troupe/cli/train/train_monitors.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "troupe/cli/train/train_output.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/step_metrics.hpp"
#include "troupe/monitors/timing/cost_samples.hpp"
#include "troupe/monitors/timing/order_log_monitor.hpp"
#include "troupe/monitors/timing/timeline.hpp"
#include "troupe/monitors/warnings.hpp"

namespace troupe::cli {

monitor_context context_of(trainer& run, const train_setup& setup,
                           sink_pointer sink) {
  monitor_context context;
  context.plan = run.shared_plan();
  context.sink = std::move(sink);
  context.parameters = run.parameter_count();
  context.lanes = context.plan->ranks() * setup.trainer.data_parallel;
  context.observe_every = [&run](std::int64_t steps) {
    run.observe_every(steps);
  };
  return context;
}

namespace {

bool is_called(const std::string& spec, std::string_view name) {
  return std::string_view(spec).substr(0, spec.find(':')) == name;
}

bool gives_terminal(const train_options& options) {
  return std::ranges::any_of(options.output.sink, [](const std::string& spec) {
    return is_called(spec, "terminal");
  });
}

/// Logs alerts, unless a terminal's sink prints them.
sink_pointer log_of_alerts() {
  return callback_sink({}, [](const alert& what) {
    spdlog::warn("{}: {}", what.monitor, what.text);
  });
}

/// Adds a sink for the gap monitor, whose metrics would otherwise be lost.
void add_default_sinks(std::vector<sink_pointer>& target,
                       const train_options& options, bool has_page) {
  const auto gap = std::ranges::any_of(
    options.output.monitor,
    [](const std::string& spec) { return is_called(spec, "gap"); });
  if (!gap || has_page || !options.output.sink.empty())
    return;
  constexpr auto* shown = "terminal:match=gap/*,top=5";
  spdlog::info(
    "no --sink given: printing the largest values of --monitor gap, as --sink "
    "'{}' does",
    shown);
  target.push_back(make_sink(shown));
}

}  // namespace

sink_pointer make_sinks(const train_options& options, const dashboard* page) {
  std::vector<sink_pointer> all;
  for (const auto& spec : options.output.sink)
    all.push_back(make_sink(spec));
  add_default_sinks(all, options, page != nullptr);
  if (!gives_terminal(options) && all.size() == options.output.sink.size())
    all.push_back(log_of_alerts());
  if (page)
    all.push_back(page->sink());
  return join(std::move(all));
}

void require_monitors(const train_options& options) {
  monitor_context nothing;
  nothing.sink = callback_sink({});
  for (const auto& spec : options.output.monitor)
    make_monitor(spec, nothing);
  for (const auto& spec : options.output.sink)
    require_sink(spec);
}

namespace {

/// A monitor that shows each step sees no op times, which are unknown for a
/// step that is launched as a whole.
monitor of_each_step(monitor made, const train_options& options) {
  made.wants.ops = made.wants.ops && !options.devices.cuda_graphs;
  return made;
}

}  // namespace

void attach_monitors(trainer& run, const train_options& options,
                     const train_setup& setup, const dashboard* page) {
  run.attach(warning_monitor());
  run.attach(of_each_step(progress_monitor(progress_to(options)), options));
  if (!options.output.log_json.empty())
    run.attach(of_each_step(
      metrics_monitor(options.output.log_json, run.progress().step > 0),
      options));
  if (!options.output.timeline.empty() || !options.output.trace.empty())
    run.attach(
      timeline_monitor({options.output.timeline, options.output.trace}));
  if (!options.output.costs_out.empty())
    run.attach(cost_monitor(options.output.costs_out));
  if (!options.order.log.empty())
    run.attach(order_log_monitor(options.order.log));
  const auto context = context_of(run, setup, make_sinks(options, page));
  for (const auto& spec : options.output.monitor)
    run.attach(make_monitor(spec, context));
  if (!options.output.sink.empty())
    run.attach(of_each_step(step_metrics_monitor(context.sink), options));
  if (page)
    for (const auto& part : page->monitors())
      run.attach(part);
}

}  // namespace troupe::cli
