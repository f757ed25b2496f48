#pragma once

#include <cstdint>
#include <string>

#include "troupe/base/fields.hpp"

namespace troupe {

/// Why a run ends before its last step, at the end of one: the parameters are
/// those of that step.
struct run_end {
  enum class kind : std::uint8_t {
    asked,    // by `trainer::stop`
    failed,   // a monitor threw `stop_training`
    success,  // a monitor threw `end_training`
  };
  kind why = kind::asked;
  std::string reason;
};
template <>
inline constexpr auto largest_value<run_end::kind> = run_end::kind::success;
TROUPE_FIELDS(run_end, why, reason)

}  // namespace troupe
