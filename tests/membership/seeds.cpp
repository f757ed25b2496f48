#include "seeds.hpp"

namespace troupe::simulated {

outcome run_seed(std::int64_t seed, bool is_verbose) {
  const auto of = draw_scenario(static_cast<std::uint64_t>(seed));
  simulation job(of, is_verbose);
  return job.run();
}

summary run_seeds(std::int64_t first, std::int64_t last, bool stops_at_first) {
  summary all;
  for (auto seed = first; seed < last; ++seed) {
    const auto result = run_seed(seed);
    ++all.seeds;
    all.events += result.events;
    all.epochs += result.epochs;
    all.decisions += result.decisions;
    all.repeated += result.repeated;
    all.stops += result.has_stopped ? 1 : 0;
    all.saves += result.has_saved ? 1 : 0;
    if (result.recovery > all.longest_recovery) {
      all.longest_recovery = result.recovery;
      all.slowest = seed;
    }
    if (result.violation.empty())
      continue;
    if (++all.violations == 1) {
      all.first_violation = seed;
      all.what = result.violation;
    }
    if (stops_at_first)
      break;
  }
  return all;
}

}  // namespace troupe::simulated
