#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/local_launcher.hpp"
#include "troupe/engine/membership/failure_policy.hpp"

namespace troupe::cli {

struct healing_launch_settings {
  std::int32_t processes = 1;  // of the job
  std::int32_t spares = 0;
  membership::failure_policy policy{};
};

/// A job of `troupe launch` that may heal, and whose authority is the launcher.
/// Used by one thread.
struct healing_launch {
  std::unique_ptr<authority_server> authority;  // null: no job can heal
  /// By process, how often it was started again since it was last in a job that
  /// had begun.
  std::map<std::int32_t, int> tries;
  /// The loss that stops the job, as its policy does not allow it.
  std::optional<ended_process> last_loss;
};

/// Starts an authority for the launch, which asks it about its processes; those
/// of a job that does not heal (train without --heal) do not use it. The result
/// must outlive the launch. Throws as `authority_server` does, if there are
/// spares.
std::shared_ptr<healing_launch> healing_launch_of(
  const healing_launch_settings& settings, local_launch& what);

/// The outcome of the launch. The others have failed because of a loss that
/// stops the job, if any were left. Null: as it is.
launch_outcome with_last_loss(launch_outcome outcome,
                              const healing_launch* healing);

}  // namespace troupe::cli
