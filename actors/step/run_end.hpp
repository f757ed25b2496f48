#pragma once

#include <cstdint>
#include <string>

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

}  // namespace troupe
