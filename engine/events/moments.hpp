#pragma once

namespace troupe {

/// Number, mean and sum of squared distances from the mean of some values.
struct moments {
  double count = 0;
  double mean = 0;
  double squares = 0;

  /// Merges as if both had been computed at once (Chan, Golub and LeVeque).
  constexpr void add(const moments& more) {
    if (more.count == 0)
      return;
    if (count == 0) {  // also avoids overflow of a large mean's square
      *this = more;
      return;
    }
    const auto share = more.count / (count + more.count);
    const auto distance = more.mean - mean;
    squares += more.squares + distance * distance * count * share;
    mean += distance * share;
    count += more.count;
  }

  /// Unbiased; 0 for fewer than two values.
  constexpr double variance() const {
    return count > 1 ? squares / (count - 1) : 0;
  }
};

}  // namespace troupe
