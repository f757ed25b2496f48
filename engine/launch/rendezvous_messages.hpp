#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/transport/frame.hpp"

namespace troupe {

/// The first setting that differs, with both values; empty if none does.
/// `where`, `in`: how the other process and the leader are called.
std::string difference(const job_description& leader,
                       const job_description& other,
                       const char* where = "there",
                       const char* in = "process 0");

// Messages between processes until all are ready, in control frames.

/// Where a process can be reached: endpoints.
struct process_address {
  std::string listens;
  std::string machine = {};  // equal in processes of one machine
  std::string near = {};     // a unix socket for the same machine, or empty
};
TROUPE_FIELDS(process_address, listens, machine, near)

bool share_machine(const process_address& a, const process_address& b);
/// The near address if both share a machine.
const std::string& way_to(const process_address& there,
                          const process_address& own);

/// The first message to process 0: who joins.
struct join_request {
  std::int32_t process = 0;
  std::int32_t processes = 0;
  std::int64_t pid = 0;
  std::string host;
  process_address address;
  job_description description;
};
TROUPE_FIELDS(join_request, process, processes, pid, host, address, description)

/// The answer once all have come: where every process listens.
struct join_welcome {
  std::uint64_t run = 0;
  std::vector<process_address> addresses;  // by process
};
TROUPE_FIELDS(join_welcome, run, addresses)

/// The answer instead: why the job can't start.
struct join_refusal {
  std::string reason;
  /// The meeting is over for all; else this process alone is refused.
  bool ends_meeting = false;
};
TROUPE_FIELDS(join_refusal, reason, ends_meeting)

/// The first message on a tensor connection: whose it is.
struct line_hello {
  std::uint64_t run = 0;
  std::int32_t process = 0;
};
TROUPE_FIELDS(line_hello, run, process)

/// Asks for the time; process 0 answers.
struct clock_question {
  std::int64_t asked = 0;  // ns of the asker's clock
};
TROUPE_FIELDS(clock_question, asked)
struct clock_answer {
  std::int64_t asked = 0;
  std::int64_t now = 0;  // ns of the leader's clock
};
TROUPE_FIELDS(clock_answer, asked, now)

/// All connections are there; the leader replies likewise when all are ready.
struct job_ready {
  /// The offset from this process's clock to the leader's; the leader's answer
  /// has all of them.
  std::vector<std::int64_t> clock_offsets;
};
TROUPE_FIELDS(job_ready, clock_offsets)

/// "process 1 (pid 77 on host)".
std::string in_words(const join_request& who);

/// Lists missing processes: "process 1, process 3".
std::string missing_of(
  const std::vector<std::optional<join_request>>& requests);

/// Why a process can't join those that have, by process, which were started
/// with these settings; empty: it can.
std::string objection_to(
  const join_request& who,
  const std::vector<std::optional<join_request>>& requests,
  const job_description& description);

using rendezvous_message =
  std::variant<join_request, join_welcome, join_refusal, line_hello,
               clock_question, clock_answer, job_ready>;

frame to_frame(const rendezvous_message& message);
/// Throws `transport` for any other frame.
rendezvous_message read_rendezvous(const frame& what);

}  // namespace troupe
