#include "troupe/monitors/live/replanner.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/base/median.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/search/search.hpp"
#include "troupe/engine/plan/search/search_steps.hpp"
#include "troupe/monitors/step_times.hpp"
#include "troupe/monitors/timing/cost_samples.hpp"

namespace troupe {

namespace {

/// An order is taken if its step takes at most this share.
constexpr double share_of_now = 0.98;
/// How far the times of ops differ in another order, as ranks that compute at
/// once slow each other down (measured: bench/replanned.py).
constexpr double order_error = 0.05;
/// The same where the times of backwards are a guess.
constexpr double guess_error = 0.1;
/// A trial ends when its median step is known as well as this, after so many
/// steps, or when it has taken that long. The first step of an order does not
/// count.
constexpr double trial_error = 0.02;
constexpr std::size_t usual_trial_steps = 8, most_trial_steps = 32;
constexpr std::chrono::seconds longest_trial{40};
/// Fewer steps tell nothing.
constexpr std::size_t least_steps = 3;
/// Costs are those of so many steps, the last ones.
constexpr std::size_t most_steps = 16;

/// The median of times in ms, which single slow steps do not change, and twice
/// its standard error as a fraction, from the median deviation.
struct step_estimate {
  double ms = 0, uncertainty = 0;  // 0: too few steps
};

step_estimate estimate_of(const std::deque<double>& steps) {
  if (steps.size() < least_steps)
    return {};
  const auto center = median(steps);
  auto deviations = steps;
  for (auto& each : deviations)
    each = std::abs(each - center);
  // The factors of a normal distribution: the standard deviation by the median
  // deviation, and the standard error of the median by that of the mean.
  constexpr double of_deviation = 1.4826, of_mean = 1.2533;
  return {center, 2 * of_deviation * of_mean * median(deviations) / center
                    / std::sqrt(static_cast<double>(steps.size()))};
}

/// What the last steps tell.
struct measurement {
  op_costs costs{};
  step_estimate step{};                            // of the current plan
  bool covers_full = false, covers_split = false;  // backwards

  bool covers(const schedule& order) const {
    return (covers_full || !has_op(order, op_kind::backward))
           && (covers_split || !has_split_backward(order));
  }
};

}  // namespace

struct replanner::state {
  state(trainer& of, std::int64_t steps) : run(of), every(steps) {}

  trainer& run;
  std::int64_t every;
  std::mutex deciding;                             // one request at a time
  std::shared_ptr<const plan> before_trial, left;  // the plan of a left trial
  std::vector<lane> refused;                       // after a trial
  std::mutex replanning;  // while the run is asked, or ends
  std::atomic<bool> over = false;
  std::mutex mutex;  // of what follows
  step_collector collector;
  std::deque<std::vector<ops_event>> recent;         // steps
  std::int64_t seen = 0;                             // steps
  std::shared_ptr<const plan> ran, own, left_steps;  // plans of steps
  std::deque<double> ran_ms;  // of that plan's steps but the first
  std::string trial_name;     // of the order that is tried
  std::condition_variable step_seen;
  std::atomic<bool> searching = false;
  std::jthread searcher;  // of the thread that calls `see`

  void see(const event& what) {
    {
      const std::scoped_lock lock(mutex);
      const auto* step = collector.add(what);
      if (!step || step->empty())
        return;
      recent.push_back(*step);
      if (recent.size() > most_steps)
        recent.pop_front();
      add_time_of(*step);
      step_seen.notify_all();
      if (every == 0 || ++seen % every != 0 || searching.exchange(true))
        return;
    }
    // Elsewhere, as it may take longer than steps. The one before has ended.
    searcher = std::jthread([this] { search_by_itself(); });
  }

  void add_time_of(const std::vector<ops_event>& step) {
    if (std::exchange(ran, step.front().plan) != step.front().plan)
      return ran_ms.clear();
    const auto [begin, end] = extent_of(step);
    ran_ms.push_back(1e-6 * static_cast<double>(std::max(end - begin, {})));
    if (ran_ms.size() > most_trial_steps)
      ran_ms.pop_front();
  }

  void search_by_itself() {
    try {
      const auto result = search({}, false);
      if (result.taken)
        log()->info("{}: {:.3g} ms per step (+-{:.0f} %, {}) instead of {:.3g}",
                    result.order.name, result.then, 100 * result.uncertainty,
                    result.trial_steps > 0 ? "measured" : "predicted",
                    result.now);
    } catch (const error& reason) {
      if (reason.code() != error_code::interrupted)  // the run is over
        log()->warn("could not search for another order: {}", reason.what());
    } catch (...) {
      log()->warn("could not search for another order: {}", thrown_text());
    }
    searching = false;
  }

  void end() {
    {
      const std::scoped_lock lock(mutex);
      over = true;
    }
    step_seen.notify_all();
  }

  /// The costs and the step of the run's own order. Waits until steps of it
  /// have been measured, not of a trial, unless they take too long.
  std::optional<measurement> measured() {
    std::unique_lock lock(mutex);
    if (recent.empty())
      return std::nullopt;
    const auto of_itself = [&] { return ran != left_steps; };
    step_seen.wait_for(lock, longest_trial, [&] {
      return over || (of_itself() && ran_ms.size() >= least_steps);
    });
    auto figures = costs_of_steps();
    auto last = ran_ms;
    while (last.size() > usual_trial_steps)
      last.pop_front();
    if (figures && of_itself())
      figures->step = estimate_of(last);
    return figures;
  }
  std::optional<measurement> costs_of_steps() const {
    cost_samples costs;
    for (const auto& step : recent)
      costs.add(step);
    if (costs.entries().empty())
      return std::nullopt;
    using enum plan_op_kind;
    return measurement{
      .costs = costs.costs(),
      .covers_full = costs.covers({backward}),
      .covers_split = costs.covers({input_backward, weight_backward})};
  }

  /// While it is held, the run is there. Throws `interrupted`.
  std::unique_lock<std::mutex> hold_run() {
    std::unique_lock lock(replanning);
    if (over)
      throw error(error_code::interrupted, "the run is over");
    return lock;
  }
  /// The run takes this order from its next step on; returns its plan now.
  std::shared_ptr<const plan> replan(const schedule& order) {
    const auto held = hold_run();
    run.replan(order);
    return run.shared_plan();
  }

  /// The plan of the run, also before it has returned from a trial.
  std::shared_ptr<const plan> current() {
    const auto held = hold_run();
    auto runs = run.shared_plan();
    return left && runs == left ? before_trial : runs;
  }

  /// Lets the run take some steps of this order; the times of those that count.
  /// `precisely`: until their median is known.
  std::deque<double> run_trial(const schedule& order, bool precisely) {
    {
      const std::scoped_lock lock(mutex);
      trial_name = order.name;
      own = ran;
      left_steps = nullptr;
    }
    replan(order);
    std::unique_lock lock(mutex);
    const auto tried = [&] {
      return ran != own && ran->schedule_name == trial_name ? ran_ms.size() : 0;
    };
    step_seen.wait_for(lock, longest_trial, [&] {
      return over || tried() >= most_trial_steps
             || (precisely ? tried() >= usual_trial_steps
                               && estimate_of(ran_ms).uncertainty <= trial_error
                           : tried() >= least_steps);
    });
    return tried() >= least_steps ? ran_ms : std::deque<double>{};
  }

  /// Returns from a trial.
  void leave_trial(const std::shared_ptr<const plan>& usual) {
    {
      const std::scoped_lock lock(mutex);
      left_steps = ran != own ? ran : nullptr;
    }
    before_trial = usual;
    left = replan(schedule_of(*usual));
  }

  /// The step of an order that takes this long on paper.
  static outcome predicted(schedule order, double on_paper, const plan& usual,
                           const measurement& figures) {
    outcome result{.order = std::move(order)};
    const auto paper = simulate(usual, figures.costs).makespan;
    result.now = figures.step.ms > 0 ? figures.step.ms : paper;
    const auto factor = paper > 0 ? result.now / paper : 1;
    result.then = result.predicted = on_paper * factor;
    result.uncertainty =
      std::hypot(factor - 1, figures.step.uncertainty,
                 figures.covers(result.order) ? order_error : guess_error);
    return result;
  }

  /// Takes an order if a trial shows it to be faster, or `force`.
  void decide(outcome& result, const std::shared_ptr<const plan>& usual,
              bool force) {
    const auto steps = run_trial(result.order, true);
    if (!steps.empty()) {
      const auto tried = estimate_of(steps);
      result.then = tried.ms;
      result.uncertainty = tried.uncertainty;
      result.trial_steps = static_cast<int>(steps.size());
    }
    result.taken = force || result.then < share_of_now * result.now;
    refused.clear();
    if (result.taken)
      return;
    refused = result.order.lanes;
    leave_trial(usual);
  }

  /// The costs and the step of the run's own order, with the costs of I and W.
  measurement measured_split(const std::shared_ptr<const plan>& usual) {
    auto figures = measured();
    if (!figures)
      throw error(error_code::invalid_argument,
                  "no step has been measured yet; ask again later");
    if (figures->covers_split)
      return *figures;
    auto trial = schedule_of(*usual);
    trial.name += " with split backwards";
    split_backwards(trial);
    auto tried = figures;
    try {
      run_trial(trial, false);
      const std::scoped_lock lock(mutex);
      tried = costs_of_steps();
    } catch (...) {
      leave_trial(usual);
      throw;
    }
    leave_trial(usual);
    tried->step = figures->step;
    return *tried;
  }

  /// The best order of the run's stages on their ranks. `again`: also one that
  /// was refused after the last trial.
  outcome search(const memory_bound& bound, bool again = true) {
    const std::scoped_lock one_by_one(deciding);
    const auto usual = current();
    const auto figures = measured_split(usual);
    auto best = troupe::search({.placement = usual->placement,
                                .microbatches = usual->microbatches,
                                .slices = usual->slices,
                                .costs = figures.costs,
                                .compiling = options_like(*usual),
                                .barrier = true,
                                .sizes = bound.sizes,
                                .memory_limit = bound.bytes,
                                .stopped = [this] { return over.load(); }});
    auto result =
      predicted(std::move(best.found), best.makespan, *usual, figures);
    if (result.then < share_of_now * result.now
        && (again || result.order.lanes != refused))
      decide(result, usual, false);
    return result;
  }

  outcome take(const schedule& order, bool force) {
    const std::scoped_lock one_by_one(deciding);
    const auto usual = current();
    const auto figures = measured();
    // Others are refused by the run.
    const bool same_shape = order.placement == usual->placement
                            && order.microbatches == usual->microbatches
                            && order.slices == usual->slices;
    if (same_shape && order.lanes == schedule_of(*usual).lanes
        && (!force || order.name == usual->schedule_name))
      return {.order = order, .same = true};
    if (!figures || !same_shape) {
      replan(order);
      return {.order = order, .taken = true};
    }
    const auto paper =
      simulate(compile(order, options_like(*usual)), figures->costs).makespan;
    auto result = predicted(order, paper, *usual, *figures);
    if (force
        || result.then * (1 - result.uncertainty) < share_of_now * result.now)
      decide(result, usual, force);
    return result;
  }
};

replanner::replanner(trainer& run, std::int64_t every)
  : state_(std::make_shared<state>(run, every)) {}

replanner::~replanner() {
  state_->end();  // also a search
  const std::scoped_lock lock(state_->replanning);
}

monitor replanner::watch() const {
  monitor result;
  result.name = "replanner";
  result.wants.ops = true;
  result.wants.warnings = false;
  result.see = [kept = state_](const event& what) { kept->see(what); };
  result.finish = [kept = state_] { kept->end(); };
  return result;
}

void replanner::end() {
  state_->end();
}

replanner::outcome replanner::search(const memory_bound& bound) const {
  return state_->search(bound);
}

replanner::outcome replanner::take(const schedule& order, bool force) const {
  return state_->take(order, force);
}

}  // namespace troupe
