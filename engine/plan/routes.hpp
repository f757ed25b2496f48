#pragma once

#include <cstdint>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// The stage whose F, B or I gives this op its input, or `none`.
template <class Op>
std::int32_t input_stage(const Op& of, bool backward, std::int32_t stages) {
  const auto stage = of.stage + (backward ? 1 : -1);
  return stage >= 0 && stage < stages ? stage : none;
}

/// The stage whose F, B or I takes this op's result, or `none`.
template <class Op>
std::int32_t output_stage(const Op& of, bool backward, std::int32_t stages) {
  return input_stage(of, !backward, stages);
}

/// Whether a result that `stage` gives to `other` (or `none`) leaves its rank.
inline bool crosses(const placement& where, std::int32_t stage,
                    std::int32_t other, std::int8_t copy) {
  return other != none
         && where.rank_of(stage, copy) != where.rank_of(other, copy);
}

}  // namespace troupe
