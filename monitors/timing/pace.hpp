#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace troupe {

/// The middle one, or the mean of two; of at least one value.
double median_of(std::vector<double> values);

/// How the ops of a rank compare with those of the others, step by step.
/// Nothing but a lasting difference, beyond the usual noise of this rank, is
/// told of: once, and again only if it grows, or comes back after the rank was
/// as fast as the others in 52 of 64 steps.
class pace {
 public:
  /// `factor`, above 1: what counts as slow.
  explicit pace(double factor);

  /// Adds a step in which the ops took `times` as long as the others'. A
  /// number: this rank is slow, by that factor, and is to be told of now.
  std::optional<double> add(double times);

 private:
  double threshold() const;

  double least_;              // the factor, as a logarithm, as all are
  std::deque<double> steps_;  // the latest, with the last one at the end
  double known_for_ = 0;
  double told_level_ = 0;  // what counted as slow then
  std::size_t steps_since_told_ = 0;
};

}  // namespace troupe
