#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace troupe {

/// Some values in a row of a curve; those that are not finite are counted and
/// left out of the rest.
struct curve_point {
  std::int64_t step = 0;  // of the last value
  double sum = 0;
  double low = 0;
  double high = 0;
  std::int64_t values = 0;
  std::int64_t not_finite = 0;
  std::int64_t revision = 0;  // of its last change

  void add(const curve_point& next) {
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
  /// NaN if nothing is finite.
  double mean() const {
    return values > not_finite ? sum / static_cast<double>(values - not_finite)
                               : std::numeric_limits<double>::quiet_NaN();
  }
};

/// A curve's whole history in bounded memory: when it has `most` points, pairs
/// become one, and each point stands for twice as many values from then on.
class curve {
 public:
  explicit curve(std::size_t most = 2000) : most_(most) {}

  /// Revisions ascend; they tell a reader what it has not seen yet.
  void add(std::int64_t step, double value, std::int64_t revision) {
    const bool finite = std::isfinite(value);
    const auto kept = finite ? value : 0;
    const curve_point next{step, kept, kept, kept, 1, finite ? 0 : 1, revision};
    if (points_.size() >= most_ && points_.back().values >= stride_)
      halve(revision);
    if (!points_.empty() && points_.back().values < stride_)
      points_.back().add(next);
    else
      points_.push_back(next);
  }

  struct part {
    std::size_t from = 0;  // in place of the reader's points from there on
    std::vector<curve_point> points;
  };
  /// The changes after that revision.
  part since(std::int64_t revision) const {
    if (revision < halved_)
      return {0, points_};
    const auto first = std::ranges::partition_point(
      points_,
      [&](const curve_point& point) { return point.revision <= revision; });
    return {static_cast<std::size_t>(first - points_.begin()),
            {first, points_.end()}};
  }

 private:
  void halve(std::int64_t revision) {
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

  std::size_t most_;
  std::int64_t stride_ = 1;  // values of a point
  std::int64_t halved_ = 0;  // the revision that did
  std::vector<curve_point> points_;
};

}  // namespace troupe
