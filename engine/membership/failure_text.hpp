#pragma once

#include <string>
#include <string_view>

#include "troupe/engine/membership/failure_policy.hpp"

namespace troupe::membership {

/// Reads what to do on failures, such as "process=rehost:10/10min,op=stop": for
/// `process` restart, rehost or stop, for `op` retry, rehost or stop; then, but
/// for stop, how many within which time, in s, min or h; and how long to wait
/// for a restart, as in "process=restart:10/10min:30s". Omitted parts keep the
/// defaults of failure_policy. Throws `invalid_argument`.
failure_policy parse_failure_policy(std::string_view text);

/// The text of a policy, in full.
std::string to_text(const failure_policy&);

/// In the longest unit of which it is a multiple: "90s", "10min", "2h".
std::string time_text(moment);

}  // namespace troupe::membership
