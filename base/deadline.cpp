#include "troupe/base/deadline.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace troupe {

deadline::deadline(double seconds) {
  if (std::isfinite(seconds))
    when_ = clock::now()
            + std::chrono::duration_cast<clock::duration>(
              std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8)));
}

int deadline::milliseconds() const {
  if (when_ == clock::time_point::max())
    return -1;
  const auto left =
    std::chrono::ceil<std::chrono::milliseconds>(when_ - clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

std::chrono::milliseconds milliseconds_of(double seconds) {
  constexpr double longest = 1e9;
  return std::chrono::milliseconds(static_cast<std::int64_t>(
    1000 * (seconds > 0 ? std::min(seconds, longest) : 0)));
}

}  // namespace troupe
