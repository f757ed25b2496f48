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
/// Steps that measure other backwards, of which the first does not count; a
/// slow run is not waited for.
constexpr int trial_steps = 4;
constexpr std::chrono::seconds longest_trial{40};
/// Costs are those of so many steps, the last ones.
constexpr std::size_t most_steps = 16;

/// What the last steps tell.
struct measurement {
  op_costs costs{};
  double step = 0;  // ms, of the current plan; 0: not known
  double step_error = 0;
  bool covers_full = false, covers_split = false;  // backwards
};

/// Which backwards orders may have.
struct backward_kinds {
  bool full = false, split = false;
};

}  // namespace

struct replanner::state {
  state(trainer& of, std::int64_t steps) : run(of), every(steps) {}

  trainer& run;
  std::int64_t every;
  std::mutex deciding;  // one request at a time
  std::shared_ptr<const plan> before_trial;
  std::mutex replanning;  // while the run is asked, or ends
  std::atomic<bool> over = false;
  std::mutex mutex;  // of what follows
  step_collector collector;
  std::deque<std::vector<ops_event>> recent;  // steps
  std::int64_t seen = 0;                      // steps
  std::string trial_name;                     // of a plan with other backwards
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
      if (step->front().plan->schedule_name == trial_name)
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
          "{}: {:.3g} ms per step predicted (+-{:.0f} %) instead of {:.3g}",
          found.order.name, found.then, 100 * found.uncertainty, found.now);
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
    cost_samples costs;
    {
      const std::scoped_lock lock(mutex);
      for (const auto& step : recent)
        costs.add(step);
    }
    const auto entries = costs.entries();
    if (entries.empty())
      return std::nullopt;
    using enum plan_op_kind;
    return measurement{parse_costs(entries), costs.step(), costs.step_error(),
                       costs.covers({backward}),
                       costs.covers({input_backward, weight_backward})};
  }

  void replan(const schedule& order) {
    const std::scoped_lock lock(replanning);
    if (over)
      throw error(error_code::interrupted, "the run is over");
    run.replan(order);
  }

  /// The plan of the run, also while it measures with other backwards.
  std::shared_ptr<const plan> current() {
    auto runs = run.shared_plan();
    if (!before_trial || runs->schedule_name != trial_name)
      before_trial = runs;
    return before_trial;
  }

  /// Lets the run split backwards, or join them, for some steps. Whether they
  /// were measured.
  bool run_trial(const plan& usual, bool split) {
    auto trial = schedule_of(usual);
    trial.name += split ? " with split backwards" : " with joined backwards";
    split ? split_backwards(trial) : join_backwards(trial);
    {
      const std::scoped_lock lock(mutex);
      trial_name = trial.name;
      trial_seen = 0;
    }
    replan(trial);
    std::unique_lock lock(mutex);
    step_seen.wait_for(lock, longest_trial,
                       [&] { return over || trial_seen >= trial_steps; });
    return trial_seen >= trial_steps;
  }

  /// Takes the order that `choose` makes of the costs, if it is faster or
  /// `force`. `kinds`: the backwards that it may have.
  template <class Choose>
  outcome decide(backward_kinds kinds, bool force, Choose choose) {
    const std::scoped_lock one_by_one(deciding);
    const auto usual = current();
    const auto before = measured();
    const bool splits = before && kinds.split && !before->covers_split;
    const bool joins = before && kinds.full && !before->covers_full;
    const bool tries = splits || joins;
    const bool tried = tries && run_trial(*usual, splits);
    try {
      const auto known = tried ? measured() : before;
      auto made = choose(*usual, known);
      if (known)
        predict(made, *usual, *before, known->costs,
                (kinds.full && !known->covers_full)
                  || (kinds.split && !known->covers_split));
      made.taken = force || !known || made.then < share_of_now * made.now;
      if (made.taken || tries)
        replan(made.taken ? made.order : schedule_of(*usual));
      return made;
    } catch (...) {
      if (tries && !over)
        replan(schedule_of(*usual));
      throw;
    }
  }

  /// Completes a prediction whose `then` is the step on paper.
  static void predict(outcome& made, const plan& usual,
                      const measurement& before, const op_costs& costs,
                      bool guesses) {
    const auto paper = simulate(usual, costs).makespan;
    made.now = before.step > 0 ? before.step : paper;
    const auto factor = paper > 0 ? made.now / paper : 1;
    made.then *= factor;
    made.uncertainty = std::hypot(factor - 1, before.step_error,
                                  guesses ? guess_error : order_error);
  }

  /// The best order of the run's stages on their ranks.
  outcome search(const memory_bound& bound) {
    // It splits backwards, and joins hardly any again.
    constexpr backward_kinds kinds{.split = true};
    return decide(kinds, false, [&](const plan& usual, const auto& known) {
      if (!known)
        throw error(error_code::invalid_argument,
                    "no step has been measured yet; ask again later");
      auto found = troupe::search({.placement = usual.placement,
                                   .microbatches = usual.microbatches,
                                   .slices = usual.slices,
                                   .costs = known->costs,
                                   .compiling = options_like(usual),
                                   .barrier = true,
                                   .sizes = bound.sizes,
                                   .memory_limit = bound.bytes,
                                   .stopped = [this] { return over.load(); }});
      return outcome{.order = std::move(found.found), .then = found.makespan};
    });
  }

  outcome take(const schedule& order, bool force) {
    const auto usual = current();
    // Others are refused by the run.
    const bool same_shape = order.placement == usual->placement
                            && order.microbatches == usual->microbatches
                            && order.slices == usual->slices;
    backward_kinds kinds;
    if (same_shape)
      kinds = {.full = has_op(order, op_kind::backward),
               .split = has_split_backward(order)};
    return decide(
      kinds, force || !same_shape, [&](const plan& runs, const auto& known) {
        outcome made{.order = order};
        if (known && same_shape)
          made.then =
            simulate(compile(order, options_like(runs)), known->costs).makespan;
        return made;
      });
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
