#pragma once

#include <functional>
#include <optional>
#include <string>

#include "troupe/engine/launch/job.hpp"

namespace troupe {

/// Where the processes of a job find each other. Endpoints as texts.
struct meeting_point {
  std::string where;      // process 0 listens there
  std::string own_lines;  // where this process listens for the others
  std::string announced;  // what it tells them instead; empty: just that
  std::string known_by;   // what has to be the same in all, in words
  /// Process 0 calls it with where it listens, if others can't know; may be
  /// null.
  std::function<void(const std::string& where)> tell = {};
};

std::string host_name();

/// Of what the options say, else of what the launcher says: on one machine
/// unix sockets in a folder that only the user may enter, else TCP; under
/// torchrun's agent on several machines at an address that process 0 leaves in
/// its store, for which the others wait here. Throws
/// `invalid_argument` where nobody says where, `io` where the folder can't be
/// made.
meeting_point meeting_point_of(const job_options& options);

/// Where a process listens for those of its machine, when all meet over TCP.
struct near_point {
  std::string where;    // a unix socket
  std::string machine;  // what processes that can reach it have in common
};

/// Of a process that shares its machine, in a job of several. None else, and
/// where the system doesn't tell one machine from another. Throws `io` or
/// `invalid_argument` where the user's folder can't be used.
std::optional<near_point> near_point_of(const job_options& options);

}  // namespace troupe
