#pragma once

#include <cstdint>
#include <string>

#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/membership/record_store.hpp"

namespace troupe {

// Why a process can't be a member of a job that heals, in words; empty: it can.

/// `processes`: with which the job begins. `first`: the first process that
/// came; null: this is it.
std::string objection_to_process(const membership_request& about,
                                 std::int32_t processes,
                                 const membership_request* first);
/// The first process brings the job's hosting.
std::string objection_to_hosting(const membership_request& about,
                                 std::int32_t processes);
/// Or the job goes on from a record.
std::string objection_to_record(const membership_request& about,
                                const membership::job_record& record);

}  // namespace troupe
