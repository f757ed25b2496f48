#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/actors/job/state_copies.hpp"
#include "troupe/actors/step/messages.hpp"
#include "troupe/base/fields.hpp"
#include "troupe/engine/transport/frame.hpp"

namespace troupe {

/// How a run has changed since its start, as a process knows it.
struct run_changes {
  std::int64_t switches = 0;  // to other plans
  std::string plan;           // as text; empty: none
  std::int64_t rehosted = 0;  // so often
  std::vector<std::int32_t> hosting;
};
TROUPE_FIELDS(run_changes, switches, plan, rehosted, hosting)

/// What the others get to know of a process.
struct met_process {
  std::int64_t pid = 0;
  std::int64_t age = 0;  // ns that it has been in the job
  std::string core_group;
  double cores = 1;
};
TROUPE_FIELDS(met_process, pid, age, core_group, cores)

/// What a process brings to a meeting.
struct meeting_state {
  std::vector<held_state> held;
  bool has_copied = false;
  std::int64_t evaluated = -1;
  run_changes changes;
  run_requests requests;
  met_process process;
};
TROUPE_FIELDS(meeting_state, held, has_copied, evaluated, changes, requests,
              process)

/// What the leading process decides there.
struct meeting_decision {
  std::vector<std::vector<held_state>> held;
  bool has_copied = false;
  std::int64_t evaluated = -1;
  run_changes changes;
  run_requests requests;
  bool rehosts = false;  // a process has another hosting
  std::vector<met_process> processes{};
};
TROUPE_FIELDS(meeting_decision, held, has_copied, evaluated, changes, requests,
              rehosts, processes)

/// Adds requests to others: the first end that was asked for counts, and the
/// shortest limit of it.
void add(const run_requests& more, run_requests& all);

/// The decision by the meeting_state of each process. The changes are those of
/// the process that has seen most: those of one that was started again are of
/// the start. Throws `transport` for a frame that holds none.
meeting_decision decide(const std::vector<frame>& all);

}  // namespace troupe
