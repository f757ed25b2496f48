#include "troupe/monitors/step_metrics.hpp"

#include "troupe/monitors/phase_name.hpp"
#include "troupe/monitors/timing/step_collector.hpp"
#include "troupe/monitors/timing/step_times.hpp"

namespace troupe {

namespace {

metrics_record record_of(const step_event& step,
                         const std::vector<ops_event>& ops) {
  const bool training = step.source.phase == phase::training;
  const auto group =
    (training ? std::string("train") : phase_name(step.source.phase)) + "/";
  metrics_record record{step.source};
  for (const auto& values : {step.losses, step.metrics})
    for (const auto& [name, value, count] : values)
      record.values.push_back({group + name, value});
  if (step.source.phase == phase::validation)
    return record;
  const auto seconds = static_cast<double>(step.end - step.begin) * 1e-9;
  record.values.push_back(
    {group + "tokens_per_second", static_cast<double>(step.tokens) / seconds});
  if (!training)
    return record;
  record.values.push_back({"train/grad_norm", step.gradient_norm});
  record.values.push_back({"train/lr", step.learning_rate});
  record.values.push_back(
    {"train/memory_mib", static_cast<double>(step.resident_bytes) / (1 << 20)});
  if (!ops.empty())
    record.values.push_back(
      {"train/bubble", times_of(*ops.front().plan, ops).bubble});
  return record;
}

}  // namespace

monitor step_metrics_monitor(sink_pointer sink) {
  monitor made;
  made.name = "step_metrics";
  made.wants.ops = true;
  made.wants.warnings = false;
  made.see = [sink,
              steps = std::make_shared<step_collector>()](const event& what) {
    if (const auto* ops = steps->add(what))
      sink->write(record_of(std::get<step_event>(what), *ops));
  };
  made.finish = [sink] { sink->flush(); };
  return made;
}

}  // namespace troupe
