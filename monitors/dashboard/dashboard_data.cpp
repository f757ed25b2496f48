#include "troupe/monitors/dashboard/dashboard_data.hpp"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "troupe/engine/device/clock.hpp"
#include "troupe/monitors/dashboard/dashboard_json.hpp"
#include "troupe/monitors/json_number.hpp"
#include "troupe/monitors/phase_name.hpp"

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

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

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

struct dashboard_data::view {
  std::int64_t revision = 0;
  std::optional<step_event> step;
  std::shared_ptr<const troupe::plan> plan;
  std::deque<kept_step> steps;
  std::map<std::string, curve::part> curves;
  std::shared_ptr<const heat_map> heat;
  std::vector<kept_alert> alerts;
  std::int64_t alerted = 0;
  std::map<std::string, latest_value> metrics;
  std::int64_t unkept_metrics = 0;
  std::vector<std::int64_t> slow_loads;
  std::int64_t last_step = 0;
  std::int64_t last_end = 0;
  std::string failure;
  bool over = false;
  run_health health;
};

dashboard_data::dashboard_data(dashboard_subject subject)
  : subject_(std::move(subject)),
    run_(random_id()),
    plan_(subject_.plan),
    slow_loads_(static_cast<std::size_t>(subject_.data_parallel), 0) {}

void dashboard_data::see(const event& what) {
  const std::scoped_lock lock(mutex_);
  if (const auto* slow = std::get_if<slow_load_event>(&what)) {
    const auto replica = static_cast<std::size_t>(slow->source.data_rank);
    if (replica < slow_loads_.size())
      ++slow_loads_[replica];
    add_alert(slow->source, "slow load", "loader",
              fmt::format("loading microbatch {} of replica {} took {:.3f} s",
                          slow->source.microbatch, slow->source.data_rank,
                          slow->seconds));
  } else if (const auto* failure = std::get_if<failure_event>(&what)) {
    failure_ = failure->reason;
    add_alert(failure->source, "failure",
              failure->op.empty() ? "coordinator" : failure->op,
              failure->reason);
  } else if (const auto* dropped = std::get_if<dropped_event>(&what)) {
    collector_ = {};
    add_alert(
      dropped->source, "dropped", "dashboard",
      fmt::format("{} events arrived too fast to be shown", dropped->count));
  }
  if (const auto* ops = collector_.add(what))
    add_step(std::get<step_event>(what), *ops);
}

void dashboard_data::add_step(const step_event& step,
                              const std::vector<ops_event>& ops) {
  ++revision_;
  const bool training = step.source.phase == phase::training;
  const auto add = [&](const std::string& name, double value) {
    if (curves_.size() < most_curves || curves_.contains(name))
      curves_[name].add(step.source.step, value, revision_);
  };
  for (const auto& [name, value, count] : step.losses)
    add((training ? "train/" : "validation/") + name, value);
  if (!training)
    return;
  add("grad_norm", step.gradient_norm);
  add("tokens_per_second",
      static_cast<double>(step.tokens)
        / (static_cast<double>(step.end - step.begin) * 1e-9));
  last_step_ = step;
  stepped_ = revision_;
  if (!ops.empty())
    keep_ops(ops);
}

void dashboard_data::keep_ops(const std::vector<ops_event>& ops) {
  auto kept = cut(ops);
  if (kept.empty())
    return;
  if (const auto& ran = ops.front().plan; ran && ran != plan_) {
    plan_ = ran;
    steps_.clear();
  }
  steps_.push_back(
    std::make_shared<const std::vector<ops_event>>(std::move(kept)));
  std::size_t count = 0;
  for (const auto& step : steps_)
    count += count_of(*step);
  while (steps_.size() > most_steps
         || (steps_.size() > 1 && count > ops_of_steps)) {
    count -= count_of(*steps_.front());
    steps_.pop_front();
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
  heat_ = std::make_shared<const heat_map>(std::move(seen));
  heated_ = ++revision_;
}

void dashboard_data::add(const alert& what) {
  const std::scoped_lock lock(mutex_);
  add_alert(what.source, "alert", what.monitor, what.text);
}

void dashboard_data::add_alert(const event_source& source, const char* kind,
                               std::string start, std::string text) {
  text.resize(std::min(text.size(), alert_bytes));
  start.resize(std::min(start.size(), alert_bytes));
  alerts_.push_back(
    {++revision_, source, kind, std::move(start), std::move(text)});
  ++alerted_;
  if (alerts_.size() > most_alerts)
    alerts_.pop_front();
}

void dashboard_data::add(const metrics_record& record) {
  const std::scoped_lock lock(mutex_);
  ++revision_;
  for (const auto& [name, value] : record.values) {
    const auto found = metrics_.find(name);
    if (found != metrics_.end())
      found->second = {revision_, record.source.step, value};
    else if (metrics_.size() < most_metrics && name.size() < alert_bytes)
      metrics_[name] = {revision_, record.source.step, value};
    else
      ++unkept_metrics_;
  }
}

void dashboard_data::end() {
  {
    const std::scoped_lock lock(mutex_);
    if (over_)
      return;
  }
  const auto health = subject_.health ? subject_.health() : run_health{};
  const std::scoped_lock lock(mutex_);
  over_ = true;
  last_health_ = health;
  ++revision_;
}

dashboard_data::view dashboard_data::look(std::int64_t revision) const {
  const std::scoped_lock lock(mutex_);
  view now;
  now.revision = revision_;
  if (revision > revision_)
    revision = 0;  // of another run
  if (last_step_) {
    now.last_step = last_step_->source.step;
    now.last_end = last_step_->end;
  }
  if (stepped_ > revision) {
    now.step = last_step_;
    now.steps = steps_;
  }
  for (const auto& [name, each] : curves_)
    if (auto part = each.since(revision); !part.points.empty())
      now.curves[name] = std::move(part);
  if (heated_ > revision)
    now.heat = heat_;
  for (const auto& each : alerts_)
    if (each.revision > revision)
      now.alerts.push_back(each);
  now.alerted = alerted_;
  for (const auto& [name, each] : metrics_)
    if (each.revision > revision)
      now.metrics.emplace(name, each);
  now.unkept_metrics = unkept_metrics_;
  now.slow_loads = slow_loads_;
  now.failure = failure_;
  now.over = over_;
  now.health = last_health_;
  now.plan = plan_;
  return now;
}

json dashboard_data::since(std::int64_t revision) const {
  auto now = look(revision);
  if (!now.over && subject_.health)
    now.health = subject_.health();
  if (now.failure.empty())
    now.failure = now.health.failure;
  json made = {{"run", run_},
               {"revision", now.revision},
               {"step", now.last_step},
               {"steps", subject_.steps},
               {"over", now.over},
               {"interrupted", now.health.interrupted},
               {"failure", now.failure},
               {"statistics_every", subject_.statistics_every},
               {"facts", facts_json(*now.plan, subject_.data_parallel)},
               {"actors", json_of(now.health)},
               {"alerted", now.alerted},
               {"curves", json::object()},
               {"alerts", json::array()},
               {"metrics", json::array()}};
  made["actors"]["slow_loads"] = now.slow_loads;
  if (now.last_end > 0)
    made["age"] = static_cast<double>(now_ns() - now.last_end) * 1e-9;
  if (now.step)
    made["summary"] = summary_json(
      *now.plan, *now.step,
      now.steps.empty() ? std::vector<ops_event>{} : *now.steps.back());
  if (!now.steps.empty())
    made["timeline"] = timeline_json(*now.plan, now.steps);
  for (const auto& [name, part] : now.curves)
    made["curves"][name] = json_of(part);
  if (now.heat)
    made["heat"] = json_of(*now.heat);
  for (const auto& each : now.alerts)
    made["alerts"].push_back({{"step", each.source.step},
                              {"phase", phase_name(each.source.phase)},
                              {"kind", each.kind},
                              {"from", each.origin},
                              {"text", each.text}});
  for (const auto& [name, each] : now.metrics)
    made["metrics"].push_back({name, json_number(each.value), each.step});
  made["unkept_metrics"] = now.unkept_metrics;
  return made;
}

}  // namespace troupe
