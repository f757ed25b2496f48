#include "troupe/monitors/timing/cost_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/median.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/monitors/monitor_of.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe {

namespace {

constexpr double ms = 1e-6;  // of a nanosecond

double mean(const std::deque<double>& samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0)
         / static_cast<double>(samples.size());
}

}  // namespace

void cost_samples::add(samples& to, double value) {
  constexpr std::size_t most = 1000;
  to.push_back(value);
  if (to.size() > most)
    to.pop_front();
}

void cost_samples::add_message(const plan_op& reader, double ms) {
  ms = std::max(ms, 0.0);  // clocks of two processes differ a little
  add(messages_, ms);
  for (const auto input : plan_->dependencies_of(reader)) {
    const auto number = plan_->ops[input].message;
    if (number == none)
      continue;
    const auto& message = plan_->messages[static_cast<std::size_t>(number)];
    const auto& link =
      plan_->channels[static_cast<std::size_t>(message.channel)];
    return add(of_link_[std::minmax(link.from_rank, link.to_rank)], ms);
  }
}

void cost_samples::add(const std::vector<ops_event>& step) {
  const bool changes = plan_ != step.front().plan;
  if (changes) {
    plan_ = step.front().plan;
    steps_.clear();
    if (!of_stage_.empty())
      return;
  }
  if (std::exchange(only_first_, of_stage_.empty())) {
    of_stage_.clear();
    messages_.clear();
    of_link_.clear();
    steps_.clear();
  }
  for (const auto& rank : step) {
    const auto times = op_times(*plan_, rank);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto& done = rank.ops[i];
      const auto& op = plan_->ops.at(done.op);
      if (!takes_time(op.kind) && !is_copy(op.kind))
        continue;
      add(of_stage_[{op.stage, op.kind}], static_cast<double>(times[i]) * ms);
      if (done.arrived > 0)
        add_message(op, static_cast<double>(done.arrived - done.left) * ms);
    }
  }
  if (const auto [begin, end] = extent_of(step); begin < end)
    add(steps_, static_cast<double>(end - begin) * ms);
}

bool cost_samples::covers(std::initializer_list<plan_op_kind> kinds) const {
  return std::ranges::all_of(of_stage_, [&](const auto& entry) {
    const auto& [stage, kind] = entry.first;
    return kind != plan_op_kind::forward
           || std::ranges::all_of(kinds, [&](plan_op_kind each) {
                return of_stage_.contains({stage, each});
              });
  });
}

std::string cost_samples::entries() const {
  if (of_stage_.empty())
    return {};
  std::string lines;
  for (const auto& [key, samples] : of_stage_)
    lines += fmt::format("{}.{}={:.6g}\n", traits_of(key.second).cost_key,
                         key.first, mean(samples));
  // A full microbatch's, as `divided` divides messages among slices.
  const double slices = plan_->slices;
  if (!plan_->messages.empty())
    lines +=
      fmt::format("message={:.6g}\n",
                  messages_.empty() ? 0 : slices * lower_quartile(messages_));
  for (const auto& [link, samples] : of_link_)
    if (of_link_.size() > 1)
      lines += fmt::format("message.{}-{}={:.6g}\n", link.first, link.second,
                           slices * lower_quartile(samples));
  return lines;
}

op_costs cost_samples::costs() const {
  const auto lines = entries();
  return lines.empty() ? op_costs{}
                       : divided(parse_costs(lines), division_of(*plan_));
}

std::string cost_samples::text() const {
  const auto lines = entries();
  if (steps_.empty())
    return lines;
  const auto step = mean(steps_);
  const auto on_paper = simulate(*plan_, costs()).makespan;
  return fmt::format(
    "# ms, measured over {} steps of {}\n# a step took {:.6g}, predicted "
    "{:.6g}: {:+.1f} %\n{}",
    steps_.size(), plan_->schedule_name, step, on_paper,
    100 * (on_paper / step - 1), lines);
}

monitor cost_monitor(std::string path) {
  const auto costs = std::make_shared<cost_samples>();
  auto result = monitor_of_steps(
    "costs", [costs](const step_event&, const std::vector<ops_event>& step) {
      if (!step.empty())
        costs->add(step);
    });
  result.finish = [costs, path = std::move(path)] {
    if (const auto text = costs->text(); !text.empty())
      write_file_atomically(path, text);
  };
  return result;
}

}  // namespace troupe
