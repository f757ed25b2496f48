#include "troupe/engine/stage/activation_store.hpp"

#include <fmt/format.h>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

std::string name(microbatch_key key) {
  return key.slice == 0
           ? fmt::format("microbatch {}", key.microbatch)
           : fmt::format("microbatch {} slice {}", key.microbatch, key.slice);
}

}  // namespace

void activation_store::put(microbatch_key key, saved_forward saved) {
  if (!saved_.emplace(key, std::move(saved)).second)
    fail(error_code::internal,
         "{}: {} was run forward twice without a backward", owner_, name(key));
}

saved_forward activation_store::take(microbatch_key key) {
  auto node = saved_.extract(key);
  if (node.empty())
    fail(error_code::internal, "{}: backward of {} without its forward", owner_,
         name(key));
  return std::move(node.mapped());
}

void activation_store::require_empty() const {
  if (!saved_.empty())
    fail(error_code::internal,
         "{}: {} activations were left at the end of the "
         "step, the first of {}; the plan lacks their "
         "backwards",
         owner_, saved_.size(), name(saved_.begin()->first));
}

}  // namespace troupe
