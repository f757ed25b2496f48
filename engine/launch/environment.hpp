#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troupe {

/// A process's place in a job as its launcher told it by the environment.
struct launch_environment {
  std::string launcher;  // "torchrun", "Slurm", "Open MPI"; empty: none
  std::int32_t process = 0;
  std::int32_t processes = 1;
  std::int32_t local_process = 0;    // among those of this machine
  std::int32_t local_processes = 1;  // on this machine
  /// Where process 0 can be met; empty: the launcher doesn't say.
  std::string host;
  std::uint16_t port = 0;  // 0: not said
  std::string said_by;     // the variables that say it, in words
  /// torchrun's agent has taken that port for its own store.
  bool agent_store = false;
  /// The same in all processes of the job, and in no other job at the time, nor
  /// in another attempt of torchrun's.
  std::string job;

  bool is_alone() const { return processes == 1; }
  bool is_one_machine() const { return local_processes == processes; }
};

/// The value of a variable; none: it is not set.
using environment_reader =
  std::function<std::optional<std::string>(const std::string& name)>;

/// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT as
/// torchrun and `troupe launch` set them, else OMPI_COMM_WORLD_RANK and its
/// like, else SLURM_PROCID and its like. Without any of them: one process
/// alone. Slurm's processes meet at the first host of their step and Open MPI's
/// where mpirun runs, both at a port made of the job's name, unless MASTER_ADDR
/// and MASTER_PORT are set. Throws `invalid_argument` naming the variable that
/// is missing or makes no sense.
launch_environment read_environment(const environment_reader& read);
/// Of this process.
launch_environment read_environment();

}  // namespace troupe
