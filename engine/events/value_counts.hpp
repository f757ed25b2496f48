#pragma once

#include <cstdint>

namespace troupe {

/// How many of some values are of a kind. In C++17, as a GPU counts in these,
/// too: a block in 32 bits, which saves registers for values; a launch in 64.
template <class Count>
struct basic_value_counts {
  Count nans = 0;
  Count infs = 0;
  Count zeros = 0;
  // Finite, non-zero values that would become infinite, or zero, if rounded (to
  // nearest even) to that type.
  Count fp16_overflows = 0;
  Count fp16_underflows = 0;
  Count bf16_overflows = 0;
  Count bf16_underflows = 0;

  /// Calls `visit` with each count and the same one of `other`.
  template <class Other, class Visit>
  constexpr void with(const basic_value_counts<Other>& other, Visit visit) {
    visit(nans, other.nans);
    visit(infs, other.infs);
    visit(zeros, other.zeros);
    visit(fp16_overflows, other.fp16_overflows);
    visit(fp16_underflows, other.fp16_underflows);
    visit(bf16_overflows, other.bf16_overflows);
    visit(bf16_underflows, other.bf16_underflows);
  }
  template <class Other>
  constexpr void add(const basic_value_counts<Other>& more) {
    with(more, [](Count& to, Other count) { to += count; });
  }
  constexpr bool any() const {
    return (nans | infs | zeros | fp16_overflows | fp16_underflows
            | bf16_overflows | bf16_underflows)
           != 0;
  }
  constexpr bool operator==(const basic_value_counts& other) const {
    auto differences = *this;
    differences.with(other, [](Count& own, Count count) { own ^= count; });
    return !differences.any();
  }
};

using value_counts = basic_value_counts<std::int64_t>;

}  // namespace troupe
