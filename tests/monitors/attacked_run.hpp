#pragma once

#include <ATen/ops/equal.h>

#include <catch2/catch_test_macros.hpp>

#include <exception>
#include <functional>
#include <stop_token>
#include <thread>
#include <vector>

#include "fixture_g.hpp"

namespace troupe::testing {

/// A run that goes on during a test whose actions must not change its bits.
struct attacked_run {
  /// With such a small learning rate that the loss stays finite, however long
  /// it runs.
  static trainer make() {
    auto options = options_g(2, 2);
    options.numerics.optimizer = sgd{.learning_rate = 1e-6};
    return {model_g(), options};
  }

  double step() { return run.step(rows).summary.losses.at(0).value; }

  /// Trains on its own thread while `part` runs; returns the losses.
  std::vector<double> train_beside(const std::function<void()>& part) {
    std::vector<double> losses;
    std::exception_ptr failure;
    {
      const std::jthread training([&](const std::stop_token& stop) {
        try {
          while (!stop.stop_requested() || losses.size() < 5)
            losses.push_back(step());
        } catch (...) {
          failure = std::current_exception();
        }
      });
      part();
    }
    if (failure)
      std::rethrow_exception(failure);
    return losses;
  }

  /// Checks that the losses and the current parameters equal those of an
  /// undisturbed run.
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
