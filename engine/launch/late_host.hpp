#pragma once

#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

namespace troupe {

/// Waits until the host of a TCP endpoint has an address: the names of
/// containers, and of machines that boot together, may come later than their
/// processes. Asks again, for at most the options' patience and one answer of
/// the resolver, and reports to `news` meanwhile. Throws `transport` if it is
/// still unknown then, and `interrupted`.
void wait_for_host(const job_options& options, const endpoint& address);

/// Throws `interrupted`: the process was stopped while the job's met.
[[noreturn]] void fail_stopped(const launch_environment& place);

}  // namespace troupe
