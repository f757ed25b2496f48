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

/// The names of the plans that steps ran by.
struct seen_plans {
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

}  // namespace

TEST_CASE(
  "other backwards are measured before an order that has them is judged") {
  trainer run(model_g(), options_g(2, 2));
  const replanner orders(run, 0);
  seen_plans seen;
  run.attach(orders.watch());
  run.attach(seen.watch());
  std::atomic<bool> stops = false;
  std::thread steps([&] {
    while (!stops)
      run.step(source_g(2));
  });
  CHECK(seen.reaches("1f1b", 8));
  const auto take = [&](const std::string& name, bool force) {
    const schedule_shape shape{.ranks = 2, .microbatches = 2};
    const auto found = orders.take(make_schedule(name, shape), force);
    CHECK(found.order.name == name);
    CHECK(found.now > 0);
    CHECK(found.then > 0);
    CHECK(found.uncertainty >= 0.05);
    CHECK(found.taken == (force || found.then < 0.98 * found.now));
    return found;
  };
  const auto found = take("zb_h1", false);
  // Until the next step.
  const auto wanted = std::string(found.taken ? "zb_h1" : "1f1b");
  CHECK(seen.reaches(wanted, seen.count(wanted) + 2));
  CHECK(seen.count("1f1b with split backwards") >= 4);
  take("zb_h1", true);
  // The costs are those of the last 16 steps, of two ranks.
  CHECK(seen.reaches("zb_h1", seen.count("zb_h1") + 2 * 17));
  take("gpipe", false);
  CHECK(seen.count("zb_h1 with joined backwards") >= 4);
  stops = true;
  steps.join();
  run.finish_monitors();
}
