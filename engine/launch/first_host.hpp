#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// The first of the hosts that Slurm lists: "node01" of "node[01-03,7],x1".
/// None if that is no such list.
std::optional<std::string> first_of_node_list(std::string_view list);

/// The first IP address in the URI by which Open MPI's processes know mpirun:
/// "10.0.0.1" of "7.0;tcp://10.0.0.1,10.1.0.1:5031;tcp6://[fd00::2]:4480", in
/// brackets if it is of IPv6. None if there is none.
std::optional<std::string> address_of_mpirun(std::string_view uri);

/// A port from 20000 to 29999, the same for the same job.
std::uint16_t port_of_job(std::string_view job);

}  // namespace troupe
