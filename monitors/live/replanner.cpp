#include "troupe/monitors/live/replanner.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/plan/compile.hpp"
#include "troupe/engine/plan/costs.hpp"
#include "troupe/engine/plan/search.hpp"
#include "troupe/engine/plan/simulate.hpp"
#include "troupe/monitors/cost_samples.hpp"
#include "troupe/monitors/step_collector.hpp"

namespace troupe {

namespace {

/// An order is taken up if its step, on paper, takes at most this share.
constexpr double share_of_now = 0.98;
/// Costs are those of so many steps, the last ones.
constexpr std::size_t most_steps = 16;

}  // namespace

struct replanner::state {
  state(trainer& of, std::int64_t steps) : run(of), every(steps) {}

  trainer& run;
  std::int64_t every;
  std::mutex replanning;  // while the run is asked, or ends
  std::atomic<bool> over = false;
  std::mutex mutex;  // of what follows
  step_collector collector;
  std::deque<std::vector<ops_event>> recent;  // steps
  std::int64_t seen = 0;                      // steps
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
        spdlog::info("{}: {:.3g} ms a step on paper instead of {:.3g}",
                     found.order.name, found.then, found.now);
    } catch (const error& reason) {
      if (reason.code() != error_code::interrupted)  // the run is over
        spdlog::warn("no other order was looked for: {}", reason.what());
    } catch (...) {
      spdlog::warn("no other order was looked for: {}", thrown_text());
    }
    searching = false;
  }

  std::optional<op_costs> costs_now() {
    cost_samples costs;
    {
      const std::scoped_lock lock(mutex);
      for (const auto& step : recent)
        costs.add(step);
    }
    const auto entries = costs.entries();
    return entries.empty() ? std::nullopt : std::optional{parse_costs(entries)};
  }

  void replan(const schedule& order) {
    const std::scoped_lock lock(replanning);
    if (over)
      throw error(error_code::interrupted, "the run is over");
    run.replan(order);
  }

  /// The best order of the run's stages on their ranks.
  outcome search(const memory_bound& bound) {
    const auto current = run.shared_plan();
    const auto known = costs_now();
    if (!known)
      throw error(error_code::invalid_argument,
                  "no step has been measured yet; ask again later");
    outcome best;
    best.now = simulate(*current, *known).makespan;
    auto found = troupe::search({.placement = current->placement,
                                 .microbatches = current->microbatches,
                                 .slices = current->slices,
                                 .costs = *known,
                                 .compiling = options_like(*current),
                                 .barrier = true,
                                 .sizes = bound.sizes,
                                 .memory_limit = bound.bytes,
                                 .stopped = [this] { return over.load(); }});
    best.then = found.makespan;
    best.order = std::move(found.found);
    best.taken = best.then < share_of_now * best.now;
    if (best.taken)
      replan(best.order);
    return best;
  }

  outcome take(const schedule& order, bool force) {
    const auto current = run.shared_plan();
    // Others are refused by the run.
    const bool same_shape = order.placement == current->placement
                            && order.microbatches == current->microbatches
                            && order.slices == current->slices;
    outcome wish;
    wish.order = order;
    const auto known = same_shape ? costs_now() : std::nullopt;
    if (known) {
      wish.now = simulate(*current, *known).makespan;
      wish.then =
        simulate(compile(order, options_like(*current)), *known).makespan;
    }
    wish.taken = force || !known || wish.then < share_of_now * wish.now;
    if (wish.taken)
      replan(order);
    return wish;
  }
};

replanner::replanner(trainer& run, std::int64_t every)
  : state_(std::make_shared<state>(run, every)) {}

replanner::~replanner() {
  state_->over = true;  // a search ends
  const std::scoped_lock lock(state_->replanning);
}

monitor replanner::watch() const {
  monitor made;
  made.name = "replanner";
  made.wants.ops = true;
  made.wants.warnings = false;
  made.see = [kept = state_](const event& what) { kept->see(what); };
  return made;
}

replanner::outcome replanner::search(const memory_bound& bound) const {
  return state_->search(bound);
}

replanner::outcome replanner::take(const schedule& order, bool force) const {
  return state_->take(order, force);
}

}  // namespace troupe
