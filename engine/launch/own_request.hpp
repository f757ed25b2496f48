#pragma once

#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/launch/membership_messages.hpp"

namespace troupe {

/// What a process first tells the authority of its job. `own`: the member that
/// it was on an earlier connection.
membership_request own_request(const membership_options& options,
                               membership::member_id own);

}  // namespace troupe
