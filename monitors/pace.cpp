#include "troupe/monitors/pace.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "troupe/monitors/median.hpp"

namespace troupe {

namespace {

constexpr std::size_t steps_looked_at = 10, steps_to_tell = 8;
/// From which the noise is known.
constexpr std::size_t steps_kept = 64;
/// In standard deviations.
constexpr double beyond_noise = 2;

}  // namespace

pace::pace(double factor) : least_(std::log(factor)) {}

std::optional<double> pace::add(double times) {
  if (!(times > 0) || !std::isfinite(times))
    return {};
  steps_.push_back(std::log(times));
  if (steps_.size() > steps_kept)
    steps_.pop_front();
  const auto level = threshold();
  // Half the way back, so that no flicker around the threshold is news.
  if (steps_looked_at - slow_steps(level / 2) >= steps_to_tell)
    known_for_ = 0;
  if (slow_steps(known_for_ + level) < steps_to_tell)
    return {};
  const auto from =
    steps_.end()
    - static_cast<std::ptrdiff_t>(std::min(steps_looked_at, steps_.size()));
  known_for_ = median_of({from, steps_.end()});
  return std::exp(known_for_);
}

/// The noise is what steps differ by from those before, so that a lasting
/// change is none: of a normal distribution with this median difference.
double pace::threshold() const {
  std::vector<double> differences;
  for (std::size_t i = 1; i < steps_.size(); ++i)
    differences.push_back(std::abs(steps_[i] - steps_[i - 1]));
  if (differences.empty())
    return least_;
  const auto noise = 1.4826 / std::numbers::sqrt2 * median_of(differences);
  return std::max(least_, beyond_noise * noise);
}

std::size_t pace::slow_steps(double level) const {
  const auto looked_at = std::min(steps_looked_at, steps_.size());
  return static_cast<std::size_t>(
    std::count_if(steps_.end() - static_cast<std::ptrdiff_t>(looked_at),
                  steps_.end(), [=](double each) { return each > level; }));
}

}  // namespace troupe
