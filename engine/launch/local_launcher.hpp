#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct local_launch {
  std::int32_t processes = 1;
  /// The program's file, and its arguments.
  std::string program;
  std::vector<std::string> arguments{};
  /// A line of a process's output, without its end; by the calling thread. A
  /// line of 64 KiB or more comes in parts.
  std::function<void(std::int32_t process, std::string_view line,
                     bool is_error)>
    output;
  /// A signal to hand on to all processes, once; 0: none yet. May be set by
  /// any thread.
  const std::atomic<int>* signal = nullptr;
  /// How long the others may take to end by themselves once one has failed;
  /// then they are told to, by SIGTERM.
  std::chrono::milliseconds grace = std::chrono::seconds(2);
  /// How long those that were told to end may take, as they write files; then
  /// they are killed.
  std::chrono::milliseconds last_grace = std::chrono::seconds(30);
};

struct launch_outcome {
  int exit_code = 0;  // 0: all were 0; else of the first to fail
  /// The first that was killed or ended by a signal that this launcher did not
  /// send; else the first that failed.
  std::int32_t first_to_fail = -1;
  std::string how{};  // "exit code 1", "killed by signal 9"
};

/// Runs processes of one program on this machine, with RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE and a name of the job in their environment,
/// until all have ended. When one fails, the others are told to end (SIGTERM)
/// if they don't by themselves, then killed. They end as well when this
/// process is killed. What a process has started and left behind in its group
/// is told to end with it, and not waited for. Throws `io` if a process can't
/// be started.
launch_outcome launch_locally(const local_launch& what);

}  // namespace troupe
