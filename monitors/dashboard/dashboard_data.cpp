#include "troupe/monitors/dashboard/dashboard_data.hpp"

#include <fmt/format.h>
#include <utility>

#include "troupe/base/json.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/monitors/dashboard/dashboard_json.hpp"

namespace troupe {

namespace {

using nlohmann::json;

constexpr std::size_t most_steps = 4;
constexpr std::size_t ops_of_steps = 8000;    // beyond, fewer steps
constexpr std::size_t ops_of_a_step = 40000;  // beyond, fewer ranks
constexpr std::size_t most_alerts = 200;
constexpr std::size_t alert_bytes = 4096;
constexpr std::size_t most_metrics = 200;
constexpr std::size_t most_curves = 16;

std::size_t count_of(const std::vector<ops_event>& ops) {
  std::size_t count = 0;
  for (const auto& rank : ops)
    count += rank.ops.size();
  return count;
}

std::vector<ops_event> cut(const std::vector<ops_event>& ops) {
  std::vector<ops_event> kept;
  std::size_t count = 0;
  for (const auto& rank : ops)
    if ((count += rank.ops.size()) <= ops_of_a_step)
      kept.push_back(rank);
  return kept;
}

}  // namespace

dashboard_data::dashboard_data(dashboard_subject subject)
  : subject_(std::move(subject)), run_(random_digits(2)) {
  kept_.plan = subject_.plan;
  kept_.slow_loads.resize(static_cast<std::size_t>(subject_.data_parallel));
}

void dashboard_data::see(const event& what) {
  const std::scoped_lock lock(mutex_);
  if (const auto* slow = std::get_if<slow_load_event>(&what)) {
    const auto replica = static_cast<std::size_t>(slow->source.data_rank);
    if (replica < kept_.slow_loads.size())
      ++kept_.slow_loads[replica];
    add_alert(slow->source, "slow load", "loader",
              fmt::format("loading microbatch {} of replica {} took {:.3f} s",
                          slow->source.microbatch, slow->source.data_rank,
                          slow->seconds));
  } else if (const auto* failure = std::get_if<failure_event>(&what)) {
    kept_.failure = failure->reason;
    kept_.failed_at = failure->source;
    kept_.failed_op = failure->op;
    add_alert(failure->source, "failure",
              failure->op.empty() ? "coordinator" : failure->op,
              failure->reason);
  } else if (const auto* dropped = std::get_if<dropped_event>(&what)) {
    collector_ = {};
    add_alert(
      dropped->source, "dropped", "dashboard",
      fmt::format("{} events arrived too fast to be shown", dropped->count));
  } else if (const auto* epoch = std::get_if<epoch_event>(&what)) {
    collector_ = {};
    kept_.failure.clear();
    add_alert(epoch->source, "epoch", "job", epoch->text());
  }
  if (const auto* ops = collector_.add(what))
    add_step(std::get<step_event>(what), *ops);
}

void dashboard_data::add_step(const step_event& step,
                              const std::vector<ops_event>& ops) {
  ++kept_.revision;
  const bool training = step.source.phase == phase::training;
  const auto add = [&](const std::string& name, double value) {
    if (kept_.curves.size() < most_curves || kept_.curves.contains(name))
      kept_.curves[name].add(step.source.step, value, kept_.revision);
  };
  for (const auto& loss : step.losses)
    if (loss.counts())
      add((training ? "train/" : "validation/") + loss.name, loss.value);
  if (!training)
    return;
  add("grad_norm", step.gradient_norm);
  add("tokens_per_second", tokens_per_second(step));
  add("lr", step.learning_rate);
  add("memory_mib", static_cast<double>(step.resident_bytes) / (1 << 20));
  kept_.last_step = step;
  kept_.stepped = kept_.revision;
  kept_.tokens += step.tokens;
  if (kept_.begun == 0)
    kept_.begun = step.begin;
  if (ops.empty())
    return;
  keep_ops(ops);
  add("bubble", bubble_of(*kept_.plan, ops));
}

void dashboard_data::keep_ops(const std::vector<ops_event>& ops) {
  auto kept = cut(ops);
  if (kept.empty())
    return;
  if (const auto& ran = ops.front().plan; ran && ran != kept_.plan) {
    kept_.plan = ran;
    kept_.steps.clear();
  }
  kept_.steps.push_back(
    std::make_shared<const std::vector<ops_event>>(std::move(kept)));
  std::size_t count = 0;
  for (const auto& step : kept_.steps)
    count += count_of(*step);
  while (kept_.steps.size() > most_steps
         || (kept_.steps.size() > 1 && count > ops_of_steps)) {
    count -= count_of(*kept_.steps.front());
    kept_.steps.pop_front();
  }
}

void dashboard_data::see_tensors(const event& what) {
  const std::scoped_lock lock(mutex_);
  if (const auto* op = std::get_if<tensors_event>(&what)) {
    if (next_heat_.activations.empty())
      next_heat_ = {subject_.plan->stages(), subject_.plan->microbatches,
                    subject_.data_parallel};
    next_heat_.add(*op);
    return;
  }
  auto seen = std::exchange(next_heat_, {});
  if (!std::holds_alternative<step_event>(what) || seen.step == 0)
    return;
  kept_.heat = std::make_shared<const heat_map>(std::move(seen));
  kept_.heated = ++kept_.revision;
}

void dashboard_data::add(const alert& what) {
  const std::scoped_lock lock(mutex_);
  add_alert(what.source, "alert", what.monitor, what.text);
}

void dashboard_data::add_warning(const char* kind, const std::string& text) {
  const std::scoped_lock lock(mutex_);
  add_alert(kept_.last_step ? kept_.last_step->source : event_source{}, kind,
            "troupe", text);
}

void dashboard_data::add_alert(const event_source& source, const char* kind,
                               std::string start, std::string text) {
  text.resize(std::min(text.size(), alert_bytes));
  start.resize(std::min(start.size(), alert_bytes));
  kept_.alerts.push_back(
    {++kept_.revision, source, kind, std::move(start), std::move(text)});
  ++kept_.alerted;
  if (kept_.alerts.size() > most_alerts)
    kept_.alerts.pop_front();
}

void dashboard_data::add(const metrics_record& record) {
  const std::scoped_lock lock(mutex_);
  ++kept_.revision;
  for (const auto& [name, value] : record.values) {
    const auto found = kept_.metrics.find(name);
    if (found != kept_.metrics.end())
      found->second = {kept_.revision, record.source.step, value};
    else if (kept_.metrics.size() < most_metrics && name.size() < alert_bytes)
      kept_.metrics[name] = {kept_.revision, record.source.step, value};
    else
      ++kept_.unkept_metrics;
  }
}

void dashboard_data::end() {
  {
    const std::scoped_lock lock(mutex_);
    if (kept_.over)
      return;
  }
  const auto health = subject_.health ? subject_.health() : run_health{};
  const std::scoped_lock lock(mutex_);
  kept_.over = true;
  kept_.health = health;
  ++kept_.revision;
}

void dashboard_data::add_findings(const content& now, std::int64_t revision,
                                  json& news) {
  for (const auto& each : now.alerts)
    if (each.revision > revision)
      news["alerts"].push_back({{"step", each.source.step},
                                {"phase", to_text(each.source.phase)},
                                {"kind", each.kind},
                                {"from", each.origin},
                                {"text", each.text}});
  for (const auto& [name, each] : now.metrics)
    if (each.revision > revision)
      news["metrics"].push_back({name, json_number(each.value), each.step});
}

json dashboard_data::since(std::int64_t revision) const {
  auto now = [this] {
    const std::scoped_lock lock(mutex_);
    return kept_;
  }();
  if (revision > now.revision)
    revision = 0;  // of another run
  if (!now.over && subject_.health)
    now.health = subject_.health();
  if (now.failure.empty())
    now.failure = now.health.failure;
  json news = {{"run", run_},
               {"revision", now.revision},
               {"step", now.last_step ? now.last_step->source.step : 0},
               {"steps", subject_.steps},
               {"tokens", now.tokens},
               {"over", now.over},
               {"interrupted", now.health.interrupted},
               {"failure", now.failure},
               {"ended", json_of(now.health.end)},
               {"statistics_every", subject_.statistics_every},
               {"facts", facts_json(*now.plan, subject_)},
               {"actors", json_of(now.health)},
               {"alerted", now.alerted},
               {"curves", json::object()},
               {"alerts", json::array()},
               {"metrics", json::array()}};
  news["actors"]["slow_loads"] = now.slow_loads;
  if (!now.failed_op.empty())
    news["culprit"] = {{"replica", now.failed_at.data_rank},
                       {"rank", now.failed_at.rank},
                       {"op", now.failed_op}};
  if (now.last_step && now.last_step->end > 0)
    news["age"] = static_cast<double>(now_ns() - now.last_step->end) * 1e-9;
  if (now.last_step)
    news["elapsed"] = static_cast<double>(
                        (now.over ? now.last_step->end : now_ns()) - now.begun)
                      * 1e-9;
  if (now.stepped > revision) {
    news["summary"] = summary_json(
      *now.plan, *now.last_step,
      now.steps.empty() ? std::vector<ops_event>{} : *now.steps.back());
    if (!now.steps.empty())
      news["timeline"] = json_rows(now.steps, [&](const kept_step& step) {
        return step_json(*now.plan, *step, extent_of(*now.steps.front()).begin);
      });
  }
  for (const auto& [name, each] : now.curves)
    if (const auto part = each.since(revision); !part.points.empty())
      news["curves"][name] = json_of(part);
  if (now.heated > revision)
    news["heat"] = json_of(*now.heat);
  add_findings(now, revision, news);
  news["unkept_metrics"] = now.unkept_metrics;
  return news;
}

}  // namespace troupe
