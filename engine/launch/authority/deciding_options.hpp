#pragma once

#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/membership/authority.hpp"

namespace troupe {

/// How the authority of a server's job decides.
inline membership::authority_options deciding_options(
  const authority_server_options& of, const membership::job_shape& shape,
  std::int32_t processes) {
  return {.shape = shape,
          .least_members = processes,
          .lease = std::chrono::minutes(1),
          .silent_after = of.silent_after,
          .policy = of.policy,
          .ends_in_epoch = true};
}

}  // namespace troupe
