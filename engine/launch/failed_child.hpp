#pragma once

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "troupe/engine/launch/local_launcher.hpp"

namespace troupe {

/// How a process failed.
struct failed_child {
  std::int32_t process;
  int status;  // its exit code, or the signal that killed it
  bool killed;
  bool told;  // whether this launcher had told it to end

  int exit_code() const { return status + (killed ? 128 : 0); }
  /// Ended by somebody else: neither a failure of its own nor a consequence of
  /// another one's.
  bool was_signalled() const {
    constexpr std::array orderly{128 + SIGHUP, 128 + SIGINT, 128 + SIGUSR2,
                                 128 + SIGTERM};
    return !told
           && (killed || std::ranges::find(orderly, status) != orderly.end());
  }
};

/// Processes that failed by themselves as well: the cause may be theirs.
inline std::vector<std::int32_t> others_than(
  const failed_child& first, const std::vector<failed_child>& failed) {
  std::vector<std::int32_t> others;
  for (const auto& each : failed)
    if (!first.was_signalled() && !each.told && each.process != first.process)
      others.push_back(each.process);
  std::ranges::sort(others);
  return others;
}

/// A signalled process is the root cause, even if the others ended sooner: it
/// may have had files to write.
inline launch_outcome outcome_of(const std::vector<failed_child>& failed) {
  if (failed.empty())
    return {};
  auto first = std::ranges::find_if(failed, &failed_child::was_signalled);
  if (first == failed.end())
    first = failed.begin();
  return {first->exit_code(), first->process,
          fmt::format("{} {}", first->killed ? "killed by signal" : "exit code",
                      first->status),
          others_than(*first, failed)};
}

}  // namespace troupe
