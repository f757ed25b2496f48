#include "troupe/monitors/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "troupe/base/json.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/monitor_of.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

/// null for a mean of nothing.
json value_of(const named_value& mean) {
  return mean.counts() ? json_number<json>(mean.value) : json();
}

json values_of(const std::vector<named_value>& values) {
  json object = json::object();
  for (const auto& value : values)
    object[value.name] = value_of(value);
  return object;
}

/// The beginning of metrics' names.
std::string group_of(const step_event& step) {
  const bool training = step.source.phase == phase::training;
  return (training ? std::string("train") : to_text(step.source.phase)) + "/";
}

/// The model's own, and the losses under the names that sinks give them.
json metrics_of(const step_event& step) {
  const auto group = group_of(step);
  auto object = values_of(step.metrics);
  for (const auto& loss : step.losses)
    object[group + loss.name] = value_of(loss);
  return object;
}

/// Without the ops' times, where those are not known.
json line_of(const step_event& step, const step_times* times) {
  json line = {{"step", step.source.step},
               {"phase", to_text(step.source.phase)},
               {"time", wall_seconds()}};
  if (!step.losses.empty())
    line["loss"] = value_of(step.losses.front());
  line["losses"] = values_of(step.losses);
  line["metrics"] = metrics_of(step);
  line["tokens"] = step.tokens;
  if (step.source.phase == phase::validation)
    return line;
  const bool training = step.source.phase == phase::training;
  if (training) {
    line["grad_norm"] = json_number<json>(step.gradient_norm);
    line["lr"] = step.learning_rate;
    line["loss_scale"] = step.loss_scale;
    line["updated"] = step.updated;
    if (!step.not_finite.empty())
      line["not_finite"] = step.not_finite;
  }
  line["seconds"] = seconds_of(step);
  line["tokens_per_second"] = json_number<json>(tokens_per_second(step));
  if (times && training) {
    line["bubble"] = times->bubble;
    line["plan_bubble"] = times->plan_bubble;
    line["lane_seconds"] = times->seconds;
    line["plan_seconds"] = times->plan_seconds;
  }
  line["ended_at"] = static_cast<double>(step.end) * 1e-9;
  line["memory_bytes"] = step.resident_bytes;
  line["peak_memory_bytes"] = peak_resident_bytes();
  return line;
}

json line_of(const slow_load_event& slow) {
  return {{"warning", "slow load"},
          {"step", slow.source.step},
          {"microbatch", slow.source.microbatch},
          {"seconds", slow.seconds}};
}

json line_of(const failure_event& failure) {
  return {{"failure", failure.reason},
          {"step", failure.source.step},
          {"rank", failure.source.rank},
          {"stage", failure.source.stage},
          {"microbatch", failure.source.microbatch},
          {"op", failure.op}};
}

/// The step has another name, as lines of a step are found by it.
json line_of(const epoch_event& epoch) {
  return {{"epoch", epoch.epoch},
          {"after_step", epoch.source.step},
          {"processes", epoch.processes},
          {"seconds", epoch.seconds},
          {"moved_bytes", epoch.moved_bytes}};
}

metrics_record record_of(const epoch_event& epoch) {
  return {
    .source = epoch.source,
    .values = {{"job/epoch", static_cast<double>(epoch.epoch)},
               {"job/processes", static_cast<double>(epoch.processes)},
               {"job/epoch_seconds", epoch.seconds},
               {"job/moved_bytes", static_cast<double>(epoch.moved_bytes)}}};
}

metrics_record record_of(const step_event& step,
                         const std::vector<ops_event>& ops) {
  const bool training = step.source.phase == phase::training;
  const auto group = group_of(step);
  metrics_record record{step.source};
  for (const auto& values : {step.losses, step.metrics})
    for (const auto& mean : values)
      if (mean.counts())
        record.values.push_back({group + mean.name, mean.value});
  if (step.source.phase == phase::validation)
    return record;
  record.values.push_back(
    {group + "tokens_per_second", tokens_per_second(step)});
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

void write_line(append_file& file, const json& line) {
  file.write(json_text(line) + "\n");
}

/// How the lines of a step's outcome begin.
std::string beginning_of(const step_event& step) {
  return fmt::format("{{\"step\":{},\"phase\":\"{}\",", step.source.step,
                     to_text(step.source.phase));
}

/// The file, with a line for each outcome.
std::shared_ptr<append_file> open_log(const std::string& path,
                                      std::int64_t resumed,
                                      const std::vector<step_event>& latest) {
  std::set<std::string> missing;
  for (const auto& each : latest)
    missing.insert(beginning_of(each));
  auto kept = lines_with_step(resumed, "\"step\":");
  kept.step_of = [&missing, step_of = kept.step_of](std::string_view line) {
    std::erase_if(missing, [&](const std::string& beginning) {
      return line.starts_with(beginning);
    });
    return step_of(line);
  };
  auto file = std::make_shared<append_file>(path, kept);
  for (const auto& each : latest)
    if (missing.erase(beginning_of(each)) > 0)
      write_line(*file, line_of(each, nullptr));
  return file;
}

}  // namespace

monitor metrics_monitor(const std::string& path, std::int64_t resumed,
                        const std::vector<step_event>& latest) {
  const auto file = open_log(path, resumed, latest);
  monitor result;
  result.name = "metrics";
  result.wants.ops = true;
  result.see = [file,
                steps = std::make_shared<step_collector>()](const event& what) {
    const auto write = [&](const json& line) { write_line(*file, line); };
    if (const auto* ops = steps->add(what)) {
      const auto& step = std::get<step_event>(what);
      if (ops->empty())
        return write(line_of(step, nullptr));
      const auto times = times_of(*ops->front().plan, *ops);
      write(line_of(step, &times));
    } else if (const auto* slow = std::get_if<slow_load_event>(&what))
      write(line_of(*slow));
    else if (const auto* failure = std::get_if<failure_event>(&what))
      write(line_of(*failure));
    else if (const auto* epoch = std::get_if<epoch_event>(&what))
      write(line_of(*epoch));
  };
  return result;
}

monitor step_metrics_monitor(sink_pointer sink) {
  auto result = monitor_of_steps(
    "step_metrics",
    [sink = required_sink(sink)](const step_event& step,
                                 const std::vector<ops_event>& ops) {
      sink->write(record_of(step, ops));
    });
  result.see = [of_steps = std::move(result.see), sink](const event& what) {
    if (const auto* epoch = std::get_if<epoch_event>(&what))
      sink->write(record_of(*epoch));
    of_steps(what);
  };
  return result;
}

monitor order_log_monitor(const std::string& path, std::int64_t resumed) {
  const auto file =
    std::make_shared<append_file>(path, lines_with_step(resumed, "step "));
  if (file->is_empty())
    file->write(order_log_heading());
  // Ranks end a step in any order.
  return monitor_of_steps(
    "order_log", [file](const step_event&, std::vector<ops_event> ranks) {
      std::ranges::sort(ranks, {}, [](const ops_event& rank) {
        return std::pair(rank.source.data_rank, rank.source.rank);
      });
      std::string lines;
      for (const auto& rank : ranks) {
        std::vector<std::uint32_t> ops;
        for (const auto& op : rank.ops)
          ops.push_back(op.op);
        lines += order_log_line(*rank.plan, rank.source.step,
                                rank.source.data_rank, rank.source.rank, ops);
      }
      if (!lines.empty())
        file->write(lines);
    });
}

}  // namespace troupe
