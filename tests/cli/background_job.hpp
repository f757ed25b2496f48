#pragma once

#include <fmt/format.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "background_program.hpp"

namespace troupe::testing {

/// The processes of a job, started as a batch system starts them, which meet in
/// a folder. Process p writes its output to the file "p" of that folder.
struct background_job {
  background_job(int count, const std::string& command,
                 const std::string& folder) {
    for (int p = 0; p < count; ++p)
      processes.push_back(std::make_unique<background_program>(
        fmt::format(
          "env RANK={} WORLD_SIZE={} LOCAL_WORLD_SIZE={} {} --rendezvous "
          "unix:{}/job",
          p, count, count, command, folder),
        fmt::format("{}/{}", folder, p)));
  }

  void signal(std::size_t process, int number) const {
    ::kill(processes[process]->pid(), number);
  }

  std::vector<std::unique_ptr<background_program>> processes;
};

}  // namespace troupe::testing
