#include "troupe/monitors/dashboard/curve.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe {

void curve_point::add(const curve_point& next) {
  const bool first = values == not_finite;
  if (next.values > next.not_finite) {
    low = first ? next.low : std::min(low, next.low);
    high = first ? next.high : std::max(high, next.high);
  }
  step = next.step;
  sum += next.sum;
  values += next.values;
  not_finite += next.not_finite;
  revision = std::max(revision, next.revision);
}

double curve_point::mean() const {
  return values > not_finite ? sum / static_cast<double>(values - not_finite)
                             : std::numeric_limits<double>::quiet_NaN();
}

void curve::add(std::int64_t step, double value, std::int64_t revision) {
  const bool finite = std::isfinite(value);
  const auto kept = finite ? value : 0;
  const curve_point next{step, kept, kept, kept, 1, finite ? 0 : 1, revision};
  if (!points_.empty() && points_.back().values < stride_) {
    points_.back().add(next);
    return;
  }
  if (points_.size() >= most_)
    halve(revision);
  if (!points_.empty() && points_.back().values < stride_)
    points_.back().add(next);
  else
    points_.push_back(next);
}

void curve::halve(std::int64_t revision) {
  std::vector<curve_point> kept;
  for (std::size_t i = 0; i < points_.size(); i += 2) {
    kept.push_back(points_[i]);
    if (i + 1 < points_.size())
      kept.back().add(points_[i + 1]);
  }
  points_ = std::move(kept);
  stride_ *= 2;
  halved_ = revision;
}

curve::part curve::since(std::int64_t revision) const {
  if (revision < halved_)
    return {0, points_};
  const auto first = std::ranges::partition_point(
    points_,
    [&](const curve_point& point) { return point.revision <= revision; });
  return {static_cast<std::size_t>(first - points_.begin()),
          {first, points_.end()}};
}

}  // namespace troupe
