#include "troupe/monitors/timing/pace.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace troupe {

namespace {

constexpr std::size_t steps_looked_at = 10;
constexpr std::ptrdiff_t steps_to_tell = 8;
/// From which the noise is known, and whether a slow rank has recovered.
constexpr std::size_t steps_kept = 64;
constexpr std::ptrdiff_t fast_steps_to_forget = 52;
/// In standard deviations.
constexpr double beyond_noise = 2;

}  // namespace

double median_of(std::vector<double> values) {
  const auto middle =
    values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1)
    return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

pace::pace(double factor) : least_(std::log(factor)) {}

std::optional<double> pace::add(double times) {
  if (!(times > 0) || !std::isfinite(times))
    return {};
  steps_.push_back(std::log(times));
  if (steps_.size() > steps_kept)
    steps_.pop_front();
  const auto level = threshold();
  // Far longer, and half the way back, so that no rank that hovers about the
  // threshold is news again and again.
  const auto since = std::min(++steps_since_told_, steps_.size());
  const auto fast = std::count_if(
    steps_.end() - static_cast<std::ptrdiff_t>(since), steps_.end(),
    [this](double each) { return each <= told_level_ / 2; });
  if (fast >= fast_steps_to_forget)
    known_for_ = 0;
  const std::vector<double> latest(
    steps_.end()
      - static_cast<std::ptrdiff_t>(std::min(steps_looked_at, steps_.size())),
    steps_.end());
  const auto slow = std::ranges::count_if(
    latest, [=, this](double each) { return each > known_for_ + level; });
  if (slow < steps_to_tell)
    return {};
  known_for_ = median_of(latest);
  told_level_ = level;
  steps_since_told_ = 0;
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

}  // namespace troupe
