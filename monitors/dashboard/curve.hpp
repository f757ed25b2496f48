#pragma once

#include <cstddef>
#include <cstdint>
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

  void add(const curve_point& next);
  double mean() const;  // NaN if nothing is finite
};

/// A curve's whole history in bounded memory: when it has `most` points, pairs
/// become one, and each point stands for twice as many values from then on.
class curve {
 public:
  explicit curve(std::size_t most = 2000) : most_(most) {}

  /// Revisions ascend; they tell a reader what it has not seen yet.
  void add(std::int64_t step, double value, std::int64_t revision);

  struct part {
    std::size_t from = 0;  // in place of the reader's points from there on
    std::vector<curve_point> points;
  };
  /// The changes after that revision.
  part since(std::int64_t revision) const;

 private:
  void halve(std::int64_t revision);

  std::size_t most_;
  std::int64_t stride_ = 1;  // values of a point
  std::int64_t halved_ = 0;  // the revision that did
  std::vector<curve_point> points_;
};

}  // namespace troupe
