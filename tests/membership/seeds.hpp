#pragma once

#include <cstdint>
#include <string>

#include "simulation.hpp"

namespace troupe::simulated {

/// What came of many seeds.
struct summary {
  std::int64_t seeds = 0, violations = 0, first_violation = -1;
  std::string what;  // of the first
  std::int64_t events = 0, epochs = 0, decisions = 0, repeated = 0, stops = 0,
               saves = 0;
  moment longest_recovery{};
  std::int64_t slowest = -1;  // its seed
};

/// Seeds first .. last - 1; until one finds a violation, if it is to stop
/// there.
summary run_seeds(std::int64_t first, std::int64_t last, bool stops_at_first);

outcome run_seed(std::int64_t seed, bool is_verbose = false);

}  // namespace troupe::simulated
