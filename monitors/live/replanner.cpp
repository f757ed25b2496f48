#include "troupe/monitors/live/replanner.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/part.hpp"
#include "troupe/engine/plan/search/search.hpp"
#include "troupe/engine/plan/search/search_steps.hpp"
#include "troupe/monitors/timing/cost_samples.hpp"
#include "troupe/monitors/timing/step_times.hpp"

namespace troupe {

namespace {

/// An order is taken if its step is predicted to take at most this share.
constexpr double share_of_now = 0.98;
/// How far the times of ops differ in another order, as ranks that compute at
/// once slow each other down (measured: bench/replanned.py).
constexpr double order_error = 0.05;
/// ... and where the times of backwards are a guess.
constexpr double guess_error = 0.1;
/// A trial ends when its median step is known as well as this, or after so many
/// steps. The first does not count; a slow run is not waited for.
constexpr double trial_error = 0.02;
constexpr int least_trial_steps = 4, usual_trial_steps = 9,
              most_trial_steps = 33;
constexpr std::chrono::seconds longest_trial{40};
/// Costs are those of so many steps, the last ones.
constexpr std::size_t most_steps = 33;

/// What the last steps tell.
struct measurement {
  op_costs costs{};
  cost_samples::estimate step{};                   // of the current plan
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
  std::mutex deciding;  // one request at a time
  std::shared_ptr<const plan> before_trial, after_trial;  // if that was left
  std::mutex replanning;  // while the run is asked, or ends
  std::atomic<bool> over = false;
  std::mutex mutex;  // of what follows
  step_collector collector;
  std::deque<std::vector<ops_event>> recent;  // steps
  std::int64_t seen = 0;                      // steps
  std::string trial_name;                     // of the order that is tried
  std::shared_ptr<const plan> own_plan;       // of the step before a trial
  int trial_seen = 0;                         // its steps
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
      const auto& ran = step->front().plan;
      if (ran != own_plan && ran->schedule_name == trial_name)
        ++trial_seen;
      step_seen.notify_all();
      if (every == 0 || ++seen % every != 0 || searching.exchange(true))
        return;
    }
    // Elsewhere, as it may take longer than steps. The one before has ended.
    searcher = std::jthread([this] { search_by_itself(); });
  }

  void search_by_itself() {
    try {
      const auto found = search({});
      if (found.taken)
        spdlog::info(
          "{}: {:.3g} ms per step (+-{:.0f} %, {}) instead of {:.3g}",
          found.order.name, found.then, 100 * found.uncertainty,
          found.trial_steps > 0 ? "measured" : "predicted", found.now);
    } catch (const error& reason) {
      if (reason.code() != error_code::interrupted)  // the run is over
        spdlog::warn("could not search for another order: {}", reason.what());
    } catch (...) {
      spdlog::warn("could not search for another order: {}", thrown_text());
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

  std::optional<measurement> measured() {
    const std::scoped_lock lock(mutex);
    return measured_locked();
  }
  std::optional<measurement> measured_locked() {
    cost_samples costs;
    for (const auto& step : recent)
      costs.add(step);
    const auto entries = costs.entries();
    if (entries.empty())
      return std::nullopt;
    using enum plan_op_kind;
    return measurement{parse_costs(entries), costs.step(),
                       costs.covers({backward}),
                       costs.covers({input_backward, weight_backward})};
  }

  void replan(const schedule& order) {
    const std::scoped_lock lock(replanning);
    if (over)
      throw error(error_code::interrupted, "the run is over");
    run.replan(order);
  }

  /// The plan of the run, also before it has returned from a trial.
  std::shared_ptr<const plan> current() {
    auto runs = run.shared_plan();
    return after_trial && runs == after_trial ? before_trial : runs;
  }

  bool trial_ended() {
    if (over || trial_seen >= most_trial_steps)
      return true;
    return trial_seen >= usual_trial_steps
           && measured_locked()->step.uncertainty <= trial_error;
  }

  /// Lets the run take some steps of this order; returns how many count.
  int run_trial(const schedule& order) {
    {
      const std::scoped_lock lock(mutex);
      trial_name = order.name;
      own_plan = recent.empty() ? nullptr : recent.back().front().plan;
      trial_seen = 0;
    }
    replan(order);
    std::unique_lock lock(mutex);
    step_seen.wait_for(lock, longest_trial, [&] { return trial_ended(); });
    return trial_seen < least_trial_steps ? 0 : trial_seen - 1;
  }

  /// Returns from a trial.
  void leave_trial(const std::shared_ptr<const plan>& usual) {
    before_trial = usual;
    after_trial = run.shared_plan();
    replan(schedule_of(*usual));
  }

  /// The step of an order that takes this long on paper.
  static outcome predicted(schedule order, double on_paper, const plan& usual,
                           const measurement& known) {
    outcome made{.order = std::move(order)};
    const auto paper = simulate(usual, known.costs).makespan;
    made.now = known.step.ms > 0 ? known.step.ms : paper;
    const auto factor = paper > 0 ? made.now / paper : 1;
    made.then = made.predicted = on_paper * factor;
    made.uncertainty =
      std::hypot(factor - 1, known.step.uncertainty,
                 known.covers(made.order) ? order_error : guess_error);
    return made;
  }

  /// Takes an order if a trial shows it to be faster, or `force`.
  void decide(outcome& made, const std::shared_ptr<const plan>& usual,
              bool force) {
    made.trial_steps = run_trial(made.order);
    if (made.trial_steps > 0) {
      const auto tried = *measured();
      made.then = tried.step.ms;
      made.uncertainty = tried.step.uncertainty;
    }
    made.taken = force || made.then < share_of_now * made.now;
    if (!made.taken)
      leave_trial(usual);
  }

  /// What is known of the steps, with split backwards.
  measurement measured_split(const std::shared_ptr<const plan>& usual) {
    auto known = measured();
    if (!known)
      throw error(error_code::invalid_argument,
                  "no step has been measured yet; ask again later");
    if (known->covers_split)
      return *known;
    auto trial = schedule_of(*usual);
    trial.name += " with split backwards";
    split_backwards(trial);
    if (run_trial(trial) > 0)
      known->costs = measured()->costs;
    leave_trial(usual);
    return *known;
  }

  /// The best order of the run's stages on their ranks.
  outcome search(const memory_bound& bound) {
    const std::scoped_lock one_by_one(deciding);
    const auto usual = current();
    const auto known = measured_split(usual);
    auto found = troupe::search({.placement = usual->placement,
                                 .microbatches = usual->microbatches,
                                 .slices = usual->slices,
                                 .costs = known.costs,
                                 .compiling = options_like(*usual),
                                 .barrier = true,
                                 .sizes = bound.sizes,
                                 .memory_limit = bound.bytes,
                                 .stopped = [this] { return over.load(); }});
    auto made =
      predicted(std::move(found.found), found.makespan, *usual, known);
    if (made.then < share_of_now * made.now)
      decide(made, usual, false);
    return made;
  }

  outcome take(const schedule& order, bool force) {
    const std::scoped_lock one_by_one(deciding);
    const auto usual = current();
    const auto known = measured();
    // Others are refused by the run.
    const bool same_shape = order.placement == usual->placement
                            && order.microbatches == usual->microbatches
                            && order.slices == usual->slices;
    if (!known || !same_shape) {
      replan(order);
      return {.order = order, .taken = true};
    }
    const auto paper =
      simulate(compile(order, options_like(*usual)), known->costs).makespan;
    auto made = predicted(order, paper, *usual, *known);
    const bool same = order.lanes == schedule_of(*usual).lanes;
    if (force
        || (!same
            && made.then * (1 - made.uncertainty) < share_of_now * made.now))
      decide(made, usual, force);
    return made;
  }
};

replanner::replanner(trainer& run, std::int64_t every)
  : state_(std::make_shared<state>(run, every)) {}

replanner::~replanner() {
  state_->end();  // also a search
  const std::scoped_lock lock(state_->replanning);
}

monitor replanner::watch() const {
  monitor made;
  made.name = "replanner";
  made.wants.ops = true;
  made.wants.warnings = false;
  made.see = [kept = state_](const event& what) { kept->see(what); };
  made.finish = [kept = state_] { kept->end(); };
  return made;
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
