#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/engine/transport/frame.hpp"

namespace troupe {

// What processes say to each other until all are ready, in control frames.

/// Where others connect to a process: endpoints.
struct process_address {
  std::string listens;
  std::string machine = {};  // what processes that share one have in common
  std::string near = {};     // a unix socket for the same machine, or empty
};

bool share_machine(const process_address& a, const process_address& b);
/// The near one where there is one on this machine.
const std::string& way_to(const process_address& there,
                          const process_address& own);

/// To process 0, first: who comes.
struct join_request {
  std::int32_t process = 0;
  std::int32_t processes = 0;
  std::int64_t pid = 0;
  std::string host;
  process_address address;
  std::vector<std::pair<std::string, std::string>> description;
};

/// The answer, when all have come: where everybody listens.
struct join_welcome {
  std::uint64_t run = 0;
  std::vector<process_address> addresses;  // by process
};

/// The answer instead: why there will be no job.
struct join_refusal {
  std::string reason;
};

/// First on a connection that carries tensors: whose it is.
struct line_hello {
  std::uint64_t run = 0;
  std::int32_t process = 0;
};

/// What time is it there? And the answer, of process 0.
struct clock_question {
  std::int64_t asked = 0;  // ns of the asker's clock
};
struct clock_answer {
  std::int64_t asked = 0;
  std::int64_t now = 0;  // ns of the leader's clock
};

/// All connections are there; the leader answers with the same when all are.
struct job_ready {
  /// What to add to this process's clock for the leader's; the leader's answer
  /// has all of them.
  std::vector<std::int64_t> clock_offsets;
};

/// "process 1 (pid 77 on host)".
std::string in_words(const join_request& who);

/// "process 1, process 3": those who have not come.
std::string missing_of(const std::vector<std::optional<join_request>>& known);

/// Why somebody can't join those who are known already, by process, and who
/// were started with these settings; empty: he can.
std::string objection_to(
  const join_request& who,
  const std::vector<std::optional<join_request>>& known,
  const std::vector<std::pair<std::string, std::string>>& description);

using rendezvous_message =
  std::variant<join_request, join_welcome, join_refusal, line_hello,
               clock_question, clock_answer, job_ready>;

/// Whether a process that has come in may say this to another one: process 0,
/// or any other to process 0.
bool may_say(const rendezvous_message& message, bool is_leader);

frame to_frame(const rendezvous_message& message);
/// Throws `transport` for anything else.
rendezvous_message read_rendezvous(const frame& what);

}  // namespace troupe
