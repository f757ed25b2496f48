#include "troupe/engine/launch/own_request.hpp"

#include <unistd.h>

#include "troupe/base/names.hpp"

namespace troupe {

membership_request own_request(const membership_options& options,
                               membership::member_id own) {
  const auto& place = options.joining.place;
  const bool is_local = options.authority.starts_with("unix:");
  return {
    .process = place.process,
    .processes = place.processes,
    .member = own,
    .pid = ::getpid(),
    .host = is_local ? "" : host_name(),
    .shape = {options.pipeline_ranks, options.replicas, options.is_sharded},
    .hosting = options.hosting,
    .patience_ms = options.joining.patience.count(),
    .description = options.joining.description};
}

}  // namespace troupe
