#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// The environment variables by which `troupe launch` tells its processes where
/// the authority of a job that heals is, and how many of them wait to replace
/// others.
inline constexpr auto authority_variable = "TROUPE_AUTHORITY";
inline constexpr auto spares_variable = "TROUPE_SPARES";

/// A signal that the launcher received.
struct launcher_signal {
  int number = 0;
  /// The processes are killed instead of receiving it.
  bool kills = false;
};

struct started_process {
  std::int32_t process = 0;
  std::int64_t pid = 0;
  std::chrono::milliseconds age{};
};

/// A process that has ended by itself, or by somebody else's signal.
struct ended_process {
  std::int32_t process = 0;
  std::int64_t pid = 0;
  int status = 0;  // its exit code, or the signal that killed it
  bool killed = false;
};

/// What the end of a process means for the others.
enum class ending : std::uint8_t {
  counts,     ///< the job ends with it, as a failure unless its code is 0
  restarts,   ///< it is started again
  leaves,     ///< the job goes on without it
  completes,  ///< the job is done, and what happens to the others is no failure
};

struct local_launch {
  std::int32_t processes = 1;
  /// Other launchers start the other processes of the job: RANK begins with
  /// this, and WORLD_SIZE is that. 0: this launcher starts all.
  std::int32_t first_rank = 0, world_size = 0;
  /// The program's file, and its arguments.
  std::string program;
  std::vector<std::string> arguments{};
  /// Receives a line of a process's output, without its end, on the calling
  /// thread. A line of 64 KiB or more comes in parts.
  std::function<void(std::int32_t process, std::string_view line,
                     bool is_error)>
    output;
  /// Whether `output` can take some 4 KiB without blocking; processes' output
  /// stays in their pipes while it can't. Empty: always.
  std::function<bool(bool is_error)> takes_output{};
  /// The next signal that was received, if any; called by the calling thread,
  /// every 20 ms. SIGINT, SIGTERM and SIGHUP go to the processes' groups, once,
  /// SIGUSR1 and SIGUSR2 to the processes alone; SIGTSTP stops the groups, then
  /// this process, and lets the groups go on when this process does.
  std::function<std::optional<launcher_signal>()> next_signal{};
  /// How long the others may take to end by themselves once one has failed;
  /// then they get SIGTERM.
  std::chrono::milliseconds grace = std::chrono::seconds(2);
  /// How long processes may take to end after a signal, as they write files;
  /// then they are killed.
  std::chrono::milliseconds last_grace = std::chrono::seconds(30);
  /// Whether processes begin with SIGUSR1 and SIGUSR2 blocked, as they will
  /// take them from `sigwaitinfo`.
  bool holds_notices = false;
  /// More variables of the processes' environment: "NAME=VALUE".
  std::vector<std::string> environment{};
  /// Asked about each process that ends before any signal was forwarded; empty:
  /// all count.
  std::function<ending(const ended_process&)> judge{};
  /// Asked every 20 ms about each process that runs, and has for so long:
  /// whether it is to be killed, and its end to be judged. Empty: none is.
  std::function<bool(const started_process&)> is_stuck{};
  /// Whether a process has a part in a job that is done, and some time to end;
  /// others are killed. Empty: all have.
  std::function<bool(std::int64_t pid)> has_part{};
};

struct launch_outcome {
  int exit_code = 0;  // 0: all were 0; else of the first to fail
  /// The first that was killed or ended by a signal that this launcher did not
  /// send; else the first that failed.
  std::int32_t first_to_fail = -1;
  std::string how{};  // "exit code 1", "killed by signal 9"
  /// Those that failed by themselves as well, unless that one was signalled:
  /// which of them had the cause is not known here.
  std::vector<std::int32_t> others_failed{};
  /// Processes that this launcher killed, as they did not end in time.
  std::vector<std::int32_t> overdue{};
};

/// Runs processes of one program on this machine, with RANK, WORLD_SIZE,
/// LOCAL_RANK, LOCAL_WORLD_SIZE and a name of the job in their environment,
/// until all have ended. When one fails, the others get SIGTERM if they don't
/// end by themselves, and are then killed. They also end if this process is
/// killed. Processes that a process leaves behind in its group get SIGTERM when
/// it ends, and are not waited for. Throws `io` if a process can't be started.
launch_outcome launch_locally(const local_launch& what);

}  // namespace troupe
