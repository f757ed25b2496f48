#include "troupe/cli/train_monitors.hpp"

#include <spdlog/spdlog.h>

#include "troupe/cli/train_output.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/step_metrics.hpp"
#include "troupe/monitors/timeline.hpp"
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

sink_pointer make_sinks(const train_options& options, const dashboard* page) {
  std::vector<sink_pointer> all{callback_sink({}, [](const alert& what) {
    spdlog::warn("{}: {}", what.monitor, what.text);
  })};
  for (const auto& spec : options.sink)
    all.push_back(make_sink(spec));
  if (page)
    all.push_back(page->sink());
  return join(std::move(all));
}

void require_monitors(const train_options& options) {
  monitor_context nothing;
  nothing.sink = callback_sink({});
  for (const auto& spec : options.monitor)
    make_monitor(spec, nothing);
  for (const auto& spec : options.sink)
    require_sink(spec);
}

namespace {

/// What is shown of each step goes without the times of its ops, which are
/// not known of a step that is launched whole.
monitor of_each_step(monitor made, const train_options& options) {
  made.wants.ops = made.wants.ops && !options.cuda_graphs;
  return made;
}

}  // namespace

void attach_monitors(trainer& run, const train_options& options,
                     const train_setup& setup, const dashboard* page) {
  const auto plan = run.shared_plan();
  run.attach(warning_monitor());
  run.attach(
    of_each_step(progress_monitor(plan, progress_to(options)), options));
  if (!options.log_json.empty())
    run.attach(of_each_step(metrics_monitor(plan, options.log_json), options));
  if (!options.timeline.empty() || !options.trace.empty())
    run.attach(timeline_monitor(plan, {options.timeline, options.trace}));
  const auto context = context_of(run, setup, make_sinks(options, page));
  for (const auto& spec : options.monitor)
    run.attach(make_monitor(spec, context));
  if (!options.sink.empty())
    run.attach(of_each_step(step_metrics_monitor(plan, context.sink), options));
  if (page)
    for (const auto& part : page->monitors())
      run.attach(part);
}

}  // namespace troupe::cli
