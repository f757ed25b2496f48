#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace troupe {

/// A process's place in a job, read from its launcher's environment.
struct launch_environment {
  std::string
    launcher{};  // "torchrun", "Slurm", "Open MPI", "MPI"; empty: none
  std::int32_t process = 0;
  std::int32_t processes = 1;
  std::string counted_by{};  // "SLURM_STEP_NUM_TASKS=2", which gave `processes`
  std::int32_t local_process = 0;    // among those on this machine
  std::int32_t local_processes = 1;  // on this machine; 0: not known
  /// Address of process 0; empty if the launcher doesn't give one.
  std::string host{};
  std::uint16_t port = 0;  // 0: not given
  std::string said_by{};   // names of the variables that gave it
  /// torchrun's agent uses that port for its own store.
  bool agent_store = false;
  /// Equal in all processes of the job on one machine, but unique among
  /// concurrent jobs and torchrun's attempts. If the launcher names none and
  /// gives no address: the parent process.
  std::string job{};
  std::string named_by{};  // names of the variables that gave it
  /// torchrun's name of the job, in all its attempts; empty elsewhere.
  std::string elastic_run{};
  /// What to do if others are waited for that nobody started; may be empty.
  std::string if_alone{};
  /// The same where no address of process 0 is given; may be empty.
  std::string if_no_address{};
  /// A sentence about variables of a launcher that don't suffice: the process
  /// is alone, though it may not be. Empty: there are none.
  std::string doubt{};

  bool is_alone() const { return processes == 1; }
  bool is_one_machine() const { return local_processes == processes; }
};

/// The value of a variable; none if it is not set.
using environment_reader =
  std::function<std::optional<std::string>(const std::string& name)>;

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT as set by torchrun and `troupe launch`, else
/// OMPI_COMM_WORLD_RANK etc., else PMI_RANK etc. of MPICH, Intel MPI, Cray and
/// Flux, else SLURM_PROCID etc. Without any of them: a single process. Slurm's
/// processes meet at the first host of their step and
/// Open MPI's where mpirun runs, both at a port derived from the job's name,
/// unless MASTER_ADDR and MASTER_PORT are set. Throws `invalid_argument` naming
/// a variable that is missing or invalid.
launch_environment read_environment(const environment_reader& read);
/// Reads this process's environment.
launch_environment read_environment();

/// The first host of a Slurm list: "node01" for "node[01-03,7],x1". None if it
/// is not such a list.
std::optional<std::string> first_of_node_list(std::string_view list);

/// The first IP address in the URI at which Open MPI's processes reach mpirun:
/// "10.0.0.1" for "7.0;tcp://10.0.0.1,10.1.0.1:5031;tcp6://[fd00::2]:4480";
/// IPv6 is in brackets. None if there is no address.
std::optional<std::string> address_of_mpirun(std::string_view uri);

/// A port from 20000 to 29999, derived from the job's name.
std::uint16_t port_of_job(std::string_view job);

}  // namespace troupe
