// Monitor threads that can't be started, and that several threads end.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include "../no_threads.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

monitor watcher() {
  monitor idle{.name = "test"};
  idle.see = [](const event&) {};
  return idle;
}

}  // namespace

TEST_CASE("a monitor without a thread is refused, and the run goes on") {
  trainer run(model_for({}), options_for({}));
  {
    const no_threads scope;
    CHECK_THROWS_WITH(run.attach(watcher()),
                      ContainsSubstring("thread of a monitor"));
  }
  CHECK_NOTHROW(run.step(small_text()));
}

TEST_CASE("monitors may be detached while all of them are finished") {
  trainer run(model_for({}), options_for({}));
  for (int i = 0; i < 600; ++i) {
    std::vector<std::int64_t> ids;
    for (int k = 0; k < 8; ++k)
      ids.push_back(run.attach(watcher()));
    std::atomic<bool> begun = false;
    std::thread other([&] {
      begun = true;
      for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
        try {
          run.detach(*id);
        } catch (const error&) {  // it is detached already
        }
      }
    });
    while (!begun)
      std::this_thread::yield();
    CHECK_NOTHROW(run.finish_monitors());
    other.join();
  }
}
