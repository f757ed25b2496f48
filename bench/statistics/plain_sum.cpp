#include <cstdint>

float plain_sum(const void* source, std::int64_t bytes);

float plain_sum(const void* source, std::int64_t bytes) {
  typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
  const auto* x = static_cast<const lanes*>(source);
  lanes sums[8]{};
  for (std::int64_t i = 0; i + 8 <= bytes / 64; i += 8)
    for (int k = 0; k < 8; ++k)
      sums[k] += x[i + k];
  for (int k = 1; k < 8; ++k)
    sums[0] += sums[k];
  float total = 0;
  for (int i = 0; i < 16; ++i)
    total += sums[0][i];
  return total;
}
