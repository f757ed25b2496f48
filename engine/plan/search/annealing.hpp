#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "troupe/engine/plan/search/search_steps.hpp"

namespace troupe {

/// The random choices of simulated annealing: the same numbers on every system,
/// unlike those of the library's distributions.
class annealing {
 public:
  explicit annealing(std::uint64_t seed) : random_{seed} {}

  std::size_t below(std::size_t end) { return random_() % end; }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  /// Whether to go on from `next`: always if it is no worse; else the more
  /// rarely, the worse it is and the later. `progress` is in 0..1.
  bool accepts(const trial& next, const trial& now, double progress) {
    const auto cooled = 0.01 * std::pow(1e-3, progress) * energy(now);
    const auto worse = energy(next) - energy(now);
    return worse <= 0 || (cooled > 0 && uniform() < std::exp(-worse / cooled));
  }

 private:
  // The makespan guides where the period is the same for many neighbours.
  static double energy(const trial& of) {
    return of.period + 0.05 * of.makespan;
  }

  std::mt19937_64 random_;
};

}  // namespace troupe
