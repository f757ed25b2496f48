#include "troupe/monitors/stability.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "recording_sink.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

struct watched {
  explicit watched(const stability_options& options)
    : watcher(stability_monitor(options, sink)) {}
  void step(double loss, double norm = 1) {
    watcher.see(step_with(++number, loss, norm));
  }
  std::size_t alerts() const { return sink->alerts.size(); }

  std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
  monitor watcher;
  std::int64_t number = 0;
};

}  // namespace

TEST_CASE("a spike is more than six deviations above a full window") {
  watched run({.window = 4, .rolling = 3});
  for (const double loss : {1.0, 3.0, 1.0, 3.0})  // mean 2, deviation 1
    run.step(loss);
  run.step(8);  // exactly 6 deviations: no spike
  CHECK(run.alerts() == 0);
  watched again({.window = 4, .rolling = 3});
  for (const double loss : {1.0, 3.0, 1.0, 3.0})
    again.step(loss);
  again.step(8.001);
  CHECK(again.alerts() == 1);
  CHECK(again.sink->steps[5].at("spike/score_total") == 1.0 / 5);
  CHECK(again.sink->steps[5].at("spike/score") == 1.0 / 3);
}

TEST_CASE("before the window is full nothing is a spike, nor without spread") {
  watched run({.window = 4});
  run.step(1);
  run.step(1000);
  CHECK(run.alerts() == 0);
  watched flat({.window = 4});
  for (int i = 0; i < 8; ++i)
    flat.step(2);
  flat.step(2000);
  CHECK(flat.alerts() == 0);
}

TEST_CASE("gradient norms and values that are not finite are watched too") {
  watched run({.window = 4});
  for (const double x : {1.0, 3.0, 1.0, 3.0})
    run.step(2, x);
  run.step(2, 100);
  CHECK(run.alerts() == 1);
  run.step(NAN, 1);
  CHECK(run.alerts() == 2);
}

TEST_CASE("the original's windows are the defaults") {
  const stability_options options;
  CHECK(options.window == 128);
  CHECK(options.rolling == 10000);
  CHECK(options.sigmas == 6);
  CHECK_THROWS_AS(stability_monitor({.window = 1}, callback_sink({})), error);
}
