#pragma once

#include <ATen/ops/equal.h>

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "fixture_g.hpp"

namespace troupe::testing {

/// A run that goes on while a test does what must not change a bit of it.
struct attacked_run {
  /// Learns so slowly that its loss stays finite however long it runs.
  static trainer make() {
    auto options = options_g(2, 2);
    options.numerics.optimizer = sgd{.learning_rate = 1e-6};
    return {model_g(), options};
  }

  double step() { return run.step(rows).summary.losses.at(0).value; }

  /// Trains while `part` runs beside it, on a thread of its own; returns the
  /// losses.
  std::vector<double> train_beside(const std::function<void()>& part) {
    std::atomic<bool> done{false};
    std::thread other([&] {
      part();
      done = true;
    });
    std::vector<double> losses;
    while (!done || losses.size() < 5)
      losses.push_back(step());
    other.join();
    return losses;
  }

  /// The losses, and the parameters now, are those of a run left alone.
  void check_untouched(const std::vector<double>& losses) const {
    attacked_run alone;
    for (const auto loss : losses)
      REQUIRE(alone.step() == loss);
    const auto trained = run.parameters(), expected = alone.run.parameters();
    REQUIRE(trained.size() == expected.size());
    for (std::size_t i = 0; i < trained.size(); ++i)
      CHECK(at::equal(trained[i].second, expected[i].second));
  }

  source_pointer rows = source_g(2);
  trainer run = make();
};

}  // namespace troupe::testing
