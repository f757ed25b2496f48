#pragma once

#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/membership/job_shape.hpp"

namespace troupe {

/// The time of the state machines of membership, in this process.
inline membership::moment membership_time() {
  return membership::moment(now_ns() / 1000);
}

}  // namespace troupe
