#pragma once

#include <cstdint>

namespace troupe {

/// How many of some values are of a kind.
struct value_counts {
  std::int64_t nans = 0;
  std::int64_t infs = 0;
  std::int64_t zeros = 0;
  // Finite, non-zero values that would become infinite, or zero, if rounded (to
  // nearest even) to that type.
  std::int64_t fp16_overflows = 0;
  std::int64_t fp16_underflows = 0;
  std::int64_t bf16_overflows = 0;
  std::int64_t bf16_underflows = 0;

  bool operator==(const value_counts&) const = default;

  void add(const value_counts& more) {
    nans += more.nans;
    infs += more.infs;
    zeros += more.zeros;
    fp16_overflows += more.fp16_overflows;
    fp16_underflows += more.fp16_underflows;
    bf16_overflows += more.bf16_overflows;
    bf16_underflows += more.bf16_underflows;
  }
};

}  // namespace troupe
