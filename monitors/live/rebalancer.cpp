#include "troupe/monitors/live/rebalancer.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "troupe/actors/job/job_members.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/median.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/plan/search/best_hosting.hpp"
#include "troupe/monitors/live/rebalance_policy.hpp"
#include "troupe/monitors/monitor_of.hpp"
#include "troupe/monitors/step_times.hpp"
#include "troupe/monitors/timing/hosting_samples.hpp"

namespace troupe {

namespace {

constexpr std::size_t most_kept = 100;    // times of steps
constexpr std::int64_t least_after = 20;  // steps that tell what a move brought

rank_places places_of(const job_members& members, std::int32_t threads) {
  rank_places places{.process_of = members.hosting};
  std::map<std::string, std::int32_t> numbers;
  for (const auto& each : members.processes) {
    const auto next = static_cast<std::int32_t>(numbers.size());
    const auto [found, is_new] = numbers.try_emplace(each.core_group, next);
    places.group_of.push_back(found->second);
    if (is_new)
      places.cores.push_back(std::max(1.0, each.cores / threads));
  }
  return places;
}

std::string slow_processes(const std::vector<double>& speeds) {
  std::string text;
  for (std::size_t p = 0; p < speeds.size(); ++p)
    if (speeds[p] < 1)
      text += fmt::format(
        "; process {} takes {:.2g} times as long as the "
        "fastest for the same ops",
        p, 1 / speeds[p]);
  return text;
}

/// A move that was asked for.
struct asked_move {
  std::int64_t epoch = 0;  // in which it was
  std::vector<std::int32_t> hosting{};
  double before = 0, predicted = 0;  // seconds of a step
};

struct rebalancer {
  trainer& run;
  const rebalancer_options options;
  step_collector collector{};
  hosting_samples samples{};
  rebalance_policy policy{};
  rank_places places{};
  std::deque<double> seconds{};  // of the epoch's steps
  std::int64_t epoch = -1;       // that is measured; -1: it has just begun
  std::optional<asked_move> asked{};

  void see(const event& what) {
    const auto* const ops = collector.add(what);
    if (std::holds_alternative<epoch_event>(what))
      epoch = -1;
    const auto* const step = std::get_if<step_event>(&what);
    if (!step || step->source.phase != phase::training || !ops || ops->empty())
      return;
    // The first step of an epoch allocates memory.
    if (epoch < 0)
      return begin_epoch();
    if (!is_current())
      return;
    samples.add(*ops, places);
    seconds.push_back(seconds_of(*step));
    if (seconds.size() > most_kept)
      seconds.pop_front();
    tell_result();
    if (policy.looks_after(step->source.step))
      look(*ops->front().plan, step->source.step);
  }

  /// Whether ops are those of the hosting that is known: another epoch may have
  /// begun since.
  bool is_current() const { return epoch == run.epoch(); }

  void begin_epoch() {
    const auto members = run.members();
    epoch = members.epoch;
    places = places_of(members, run.options().execution.intra_op_threads);
    samples.clear();
    seconds.clear();
    std::vector<std::int64_t> pids;
    for (const auto& each : members.processes)
      pids.push_back(each.pid);
    policy.begin_epoch(pids, members.hosting);
  }

  /// Once, when enough steps have been measured after a move.
  void tell_result() {
    if (!asked || epoch == asked->epoch || std::ssize(seconds) < least_after)
      return;
    if (places.process_of == asked->hosting)
      log()->info(
        "rebalance: a step takes {:.3g} ms now, {:.3g} before, and {:.3g} was "
        "predicted",
        1e3 * median(seconds), 1e3 * asked->before, 1e3 * asked->predicted);
    asked.reset();
  }

  void look(const plan& current, std::int64_t step) {
    auto measured = samples.measured(options.state_bytes);
    hosting_problem problem{.plan = current,
                            .replicas = run.options().data_parallel,
                            .costs = std::move(measured.costs),
                            .cores = places.cores,
                            .hosting = places.process_of,
                            .state_bytes = options.state_bytes};
    for (std::size_t p = 0; p < places.group_of.size(); ++p)
      problem.processes.push_back({places.group_of[p], measured.speeds[p]});
    const auto now = predicted_step(problem, problem.hosting);
    const hosting_choice ideal{.now = now, .then = least_step(problem)};
    if (ideal.gain() < rebalance_rules{}.least_gain)
      return;  // spares the search
    const auto choice = calibrated(best_hosting(problem), median(seconds));
    log()->debug(
      "rebalance: a step of {:.3g} ms, {:.3g} on paper, would take {:.3g} with "
      "ranks in processes {}; that pays after {:.0f} steps",
      1e3 * choice.now, 1e3 * now, 1e3 * choice.then,
      fmt::join(choice.hosting, ","), choice.steps_to_pay());
    if (policy.takes(choice, options.steps - step))
      ask(choice, measured.speeds, step);
  }

  void ask(const hosting_choice& choice, const std::vector<double>& speeds,
           std::int64_t step) {
    log()->info(
      "rebalance: ranks move from processes {} to {}, as a step is predicted "
      "to take {:.3g} ms instead of {:.3g}; the move pays after {:.0f} steps{}",
      fmt::join(places.process_of, ","), fmt::join(choice.hosting, ","),
      1e3 * choice.then, 1e3 * choice.now, choice.steps_to_pay(),
      slow_processes(speeds));
    policy.note_move(step);
    try {
      run.rehost(choice.hosting);
      asked = {epoch, choice.hosting, choice.now, choice.then};
    } catch (const error& reason) {
      log()->warn("rebalance: the ranks stay where they are: {}",
                  reason.what());
    }
  }
};

}  // namespace

monitor rebalancing_monitor(trainer& run, rebalancer_options options) {
  auto watch = monitor_of(
    "rebalance", std::make_shared<rebalancer>(run, std::move(options)));
  watch.wants.ops = true;
  watch.wants.warnings = false;
  return watch;
}

}  // namespace troupe
