#include "troupe/monitors/live/replanner.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "../fixture_g.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// The names of the plans by which steps ran.
struct plan_names {
  std::mutex mutex;
  std::multiset<std::string> names;

  monitor watch() {
    monitor watcher;
    watcher.wants.ops = true;
    watcher.see = [this](const event& what) {
      const std::scoped_lock lock(mutex);
      if (const auto* ops = std::get_if<ops_event>(&what))
        names.insert(ops->plan->schedule_name);
    };
    return watcher;
  }
  std::size_t count(const std::string& name) {
    const std::scoped_lock lock(mutex);
    return names.count(name);
  }
  /// Waits for at most a minute.
  bool reaches(const std::string& name, std::size_t times) {
    using clock = std::chrono::steady_clock;
    for (const auto until = clock::now() + std::chrono::minutes(1);
         count(name) < times; std::this_thread::yield())
      if (clock::now() > until)
        return false;
    return true;
  }
};

/// A run that trains in its own thread until the end of its scope.
struct live_run {
  live_run(trainer_options options, std::int32_t microbatches)
    : run(model_g(), std::move(options)), orders(run, 0) {
    run.attach(orders.watch());
    run.attach(plans.watch());
    steps = std::thread([this, microbatches] {
      while (!stops)
        run.step(source_g(microbatches));
    });
  }
  ~live_run() {
    stops = true;
    steps.join();
    run.finish_monitors();
  }

  trainer run;
  const replanner orders;
  plan_names plans;
  std::atomic<bool> stops = false;
  std::thread steps;
};

}  // namespace

TEST_CASE("an order is tried, and kept if its steps are faster") {
  live_run live(options_g(2, 2), 2);
  const auto& orders = live.orders;
  auto& plans = live.plans;
  CHECK(plans.reaches("1f1b", 200));  // so that some are measured
  const auto take = [&](const std::string& before, const std::string& name,
                        bool force) {
    const schedule_shape shape{.ranks = 2, .microbatches = 2};
    const auto result = orders.take(make_schedule(name, shape), force);
    CHECK(result.order.name == name);
    CHECK(result.now > 0);
    CHECK(result.predicted > 0);
    CHECK(result.then > 0);
    CHECK(result.taken == (force || result.then < 0.98 * result.now));
    const auto expected = result.taken ? name : before;
    CHECK(plans.reaches(expected, plans.count(expected) + 2));
    return result;
  };
  // Steps of model G take less than a trial's longest.
  const auto forced = take("1f1b", "zb_h1", true);
  CHECK(forced.trial_steps >= 8);
  CHECK(plans.count("zb_h1") >= 16);
  for (const bool force : {false, true}) {
    const auto same = orders.take(
      make_schedule("zb_h1", {.ranks = 2, .microbatches = 2}), force);
    CHECK(same.same);
    CHECK_FALSE(same.taken);
  }
  const auto back = take("zb_h1", "gpipe", false);
  CHECK((back.trial_steps >= 8 || back.then == back.predicted));
}

TEST_CASE("a run with overlapped pairs and two copies of each stage searches") {
  auto options = options_g(2, 4);
  options.schedule = make_schedule("dualpipe", {.ranks = 2, .microbatches = 4});
  live_run live(options, 4);
  CHECK(live.plans.reaches("dualpipe", 8));
  CHECK_NOTHROW(live.orders.search());
  CHECK(live.plans.count("dualpipe with split backwards") >= 3);
}
