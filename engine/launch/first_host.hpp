#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// The first host of a Slurm list: "node01" for "node[01-03,7],x1". None if it
/// is not such a list.
std::optional<std::string> first_of_node_list(std::string_view list);

/// The first IP address in the URI at which Open MPI's processes reach mpirun:
/// "10.0.0.1" for "7.0;tcp://10.0.0.1,10.1.0.1:5031;tcp6://[fd00::2]:4480";
/// IPv6 is in brackets. None if there is none.
std::optional<std::string> address_of_mpirun(std::string_view uri);

/// A port from 20000 to 29999, derived from the job's name.
std::uint16_t port_of_job(std::string_view job);

}  // namespace troupe
