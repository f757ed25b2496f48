#include "troupe/training/run_monitors.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "troupe/actors/trainer.hpp"
#include "troupe/monitors/dashboard/dashboard.hpp"
#include "troupe/monitors/live/trainer_operations.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/monitors/monitor_log.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"
#include "troupe/monitors/timing/cost_samples.hpp"
#include "troupe/monitors/timing/timeline.hpp"
#include "troupe/training/resume.hpp"

namespace troupe {

namespace {

bool names(const std::vector<std::string>& specs, std::string_view name) {
  return std::ranges::any_of(specs, [&](std::string_view spec) {
    return spec.substr(0, spec.find(':')) == name;
  });
}

sink_pointer log_of_alerts() {
  return callback_sink({}, [](const alert& what) {
    log_finding(fmt::format("{}: {}", what.monitor, what.text));
  });
}

/// For the gap monitor, whose metrics would otherwise be lost.
sink_pointer sink_of_gap() {
  constexpr auto* spec = "terminal:match=gap/*,top=5";
  spdlog::info(
    "no sink is given: the largest values of the gap monitor are printed, as "
    "the sink '{}' does",
    spec);
  return make_sink(spec);
}

sink_pointer make_sinks(const monitoring_options& options,
                        const dashboard* page, std::int64_t resumed,
                        const http_site_pointer& site) {
  std::vector<sink_pointer> all;
  for (const auto& spec : options.sinks)
    all.push_back(make_sink(spec, resumed, site));
  if (all.empty() && !page && names(options.monitors, "gap"))
    all.push_back(sink_of_gap());
  else if (!names(options.sinks, "terminal"))
    all.push_back(log_of_alerts());
  if (page)
    all.push_back(page->sink());
  return join(std::move(all));
}

/// Op times are unknown for a step that is launched as a whole.
void attach_to_steps(trainer& run, monitor watch) {
  watch.wants.ops = watch.wants.ops && !run.options().cuda_graphs;
  run.attach(std::move(watch));
}

}  // namespace

void require_legal(const monitoring_options& options) {
  static_cast<void>(watches(options));
  for (const auto& spec : options.sinks)
    require_sink(spec);
}

bool watches(const monitoring_options& options) {
  monitor_context nothing;
  nothing.sink = callback_sink({});
  nothing.observe_every = [](std::int64_t) {};
  bool any = false;
  for (const auto& spec : options.monitors)
    any |= make_monitor(spec, nothing).wants.watches;
  return any;
}

void attach_monitors(trainer& run, const monitoring_options& options,
                     const dashboard* page, const http_site_pointer& site) {
  if (!leads_job(run.options().job))
    return;
  const auto resumed = run.progress().step;
  run.attach(warning_monitor());
  if (options.progress)
    attach_to_steps(run, progress_monitor(*options.progress));
  if (!options.metrics.empty())
    attach_to_steps(
      run, metrics_monitor(options.metrics, resumed, run.latest_outcomes()));
  if (!options.timeline.empty() || !options.trace.empty())
    run.attach(timeline_monitor({options.timeline, options.trace}));
  if (!options.costs.empty())
    run.attach(cost_monitor(options.costs));
  if (!options.order_log.empty())
    run.attach(order_log_monitor(options.order_log, resumed));
  const auto context =
    context_of(run, make_sinks(options, page, resumed, site));
  if (!options.settings.empty())
    context.sink->describe(options.settings);
  for (const auto& spec : options.monitors)
    run.attach(make_monitor(spec, context));
  if (!options.sinks.empty())
    attach_to_steps(run, step_metrics_monitor(context.sink));
}

monitor make_monitor(const std::string& spec, trainer& run, sink_pointer sink) {
  return make_monitor(spec, context_of(run, std::move(sink)));
}

}  // namespace troupe
