#pragma once

#include <string>

#include "troupe/engine/launch/environment.hpp"

namespace troupe {

/// Where the processes of a job find each other. Endpoints as texts.
struct meeting_point {
  std::string where;      // process 0 listens there
  std::string own_lines;  // where this process listens for the others
  std::string known_by;   // what has to be the same in all, in words
};

std::string host_name();

/// `rendezvous`: HOST:PORT, `tcp:HOST:PORT` or `unix:PATH`; empty: as the
/// launcher says. On one machine unix sockets in a folder that only the user
/// may enter, else TCP. Throws `invalid_argument` where nobody says where,
/// `io` where the folder can't be made.
meeting_point meeting_point_of(const launch_environment& place,
                               const std::string& rendezvous);

}  // namespace troupe
