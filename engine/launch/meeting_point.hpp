#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

namespace troupe {

/// Where the processes of a job meet. Endpoints are texts.
struct meeting_point {
  std::string where;      // process 0 listens there
  std::string own_lines;  // where this process accepts tensor lines
  std::string announced;  // sent to others instead; empty: the same
  std::string known_by;   // what must be equal in all, in words
  /// The launcher's sentence about others that nobody started; may be empty.
  std::string if_alone = {};
  /// Process 0 calls it with the address where it listens, if others can't know
  /// it; may be null.
  std::function<void(const std::string& where)> tell = {};
  /// Other processes call it for the address that process 0 published last, if
  /// that may change; may be null. Blocks for at most the options' patience;
  /// throws `transport`.
  std::function<std::string()> ask = {};
};

/// HOST:PORT as an endpoint of TCP; `tcp:` and `unix:` endpoints as they are.
std::string as_endpoint(const std::string& text);
/// The endpoint at which others find a process. Throws `invalid_argument`, also
/// for port 0.
endpoint peer_endpoint(const std::string& text);

/// From the options, else from the launcher: on one machine unix sockets in a
/// folder that only the user may enter, else TCP; under torchrun's agent on
/// several machines an address that process 0 leaves in its store, for which
/// the others wait here. Throws `invalid_argument` if no address is given, `io`
/// if the folder can't be made.
meeting_point meeting_point_of(const job_options& options);

/// Where a process listens for others of its machine, when all meet over TCP.
struct near_point {
  std::string where;    // a unix socket
  std::string machine;  // equal in processes that can reach it
};

/// For a process that shares its machine, in a job of several. None otherwise,
/// or if the system doesn't distinguish machines. Throws `io` or
/// `invalid_argument` if the user's folder can't be used.
std::optional<near_point> near_point_of(const job_options& options);

// torchrun's agent keeps a store (c10d::TCPStore) at MASTER_ADDR:MASTER_PORT,
// where the processes of a job exchange small texts. Both functions throw
// `transport` if it can't be reached within the time.

/// Publishes the address of process 0.
void tell_agent_store(const launch_environment& place, const std::string& where,
                      std::chrono::milliseconds patience);
/// Waits for the address of process 0.
std::string ask_agent_store(const launch_environment& place,
                            std::chrono::milliseconds patience);

}  // namespace troupe
