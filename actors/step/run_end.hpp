#pragma once

#include <cstdint>
#include <string>

#include "troupe/base/error.hpp"
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

/// Thrown by the step after which a monitor stopped the run (it threw
/// `stop_training`), and by all further ones; its text is the monitor's reason.
class stopped_by_monitor : public error {
 public:
  explicit stopped_by_monitor(const std::string& reason)
    : error(error_code::op_failed, reason) {}
};

/// No process that is left of a job that heals holds some rank's state: the job
/// can only begin anew, or go on from a checkpoint, with new trainers in all
/// processes, after another meeting.
class states_lost : public error {
 public:
  explicit states_lost(const std::string& reason)
    : error(error_code::op_failed, reason) {}
};

}  // namespace troupe
