#include "troupe/engine/events/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "troupe/engine/events/moments.hpp"

namespace troupe {
namespace {

moments moments_of(const tensor_statistics& statistics) {
  return {static_cast<double>(statistics.finite()), statistics.mean,
          statistics.squares};
}

double merged_min(const tensor_statistics& a, const tensor_statistics& b) {
  if (a.finite() == 0 || b.finite() == 0)
    return a.finite() == 0 ? b.min_abs : a.min_abs;
  return std::min(a.min_abs, b.min_abs);
}

shared_histogram merged_histogram(const tensor_statistics& a,
                                  const tensor_statistics& b) {
  if (a.count == 0 || b.count == 0)
    return a.count == 0 ? b.histogram : a.histogram;
  if (!a.histogram || !b.histogram)
    return {};
  auto sum = *a.histogram;
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] += (*b.histogram)[i];
  return sum;
}

}  // namespace

double tensor_statistics::variance() const {
  return moments_of(*this).variance();
}

double tensor_statistics::l2() const {
  return std::sqrt(squares + static_cast<double>(finite()) * mean * mean);
}

tensor_statistics merge(const tensor_statistics& a,
                        const tensor_statistics& b) {
  auto both = moments_of(a);
  both.add(moments_of(b));
  auto result = a;
  result.histogram = merged_histogram(a, b);
  result.min_abs = merged_min(a, b);
  result.max_abs = std::max(a.max_abs, b.max_abs);
  result.mean = both.mean;
  result.squares = both.squares;
  result.instance_mean_sum += b.instance_mean_sum;
  result.instance_variance_sum += b.instance_variance_sum;
  result.add(b);
  result.count += b.count;
  result.instances += b.instances;
  return result;
}

tensor_statistics scaled(const tensor_statistics& statistics, double factor) {
  auto result = statistics;
  result.max_abs *= std::abs(factor);
  result.min_abs *= std::abs(factor);
  result.mean *= factor;
  result.squares *= factor * factor;
  result.instance_mean_sum *= factor;
  result.instance_variance_sum *= factor * factor;
  return result;
}

}  // namespace troupe
