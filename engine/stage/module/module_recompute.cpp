// A stage's second forward, where activations are recomputed for the backward.
#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

namespace troupe {

void module_compute::require_kept_buffers(
  const std::vector<std::int64_t>& versions) const {
  const auto after = versions_of(buffers_);
  const auto [first, changed] = std::ranges::mismatch(versions, after);
  if (changed != after.end())
    fail(error_code::invalid_argument,
         "the forward of stage {} changes the buffer '{}', which recompute "
         "would change twice; turn recompute off",
         options_.index,
         module_->buffers_by_name()
           .at(static_cast<std::size_t>(changed - after.begin()))
           .first);
}

void module_compute::run_again(microbatch_key key, saved_forward& saved) {
  const at::AutoGradMode with_graph(true);
  auto again = run_observed(key, saved.inputs, saved.data, saved.earlier,
                            observer::pass::forward_again);
  if (const auto sent = describe(flat(again.sent));
      sent != saved.sent || again.saved.losses.size() != saved.losses.size())
    fail(error_code::op_failed,
         "stage {}: the forward of microbatch {} was recomputed and returned "
         "{}, at first {}; a forward that draws random numbers or keeps a "
         "state cannot be recomputed",
         options_.index, key.microbatch, sent, saved.sent);
  again.saved.samples = saved.samples;
  saved = std::move(again.saved);
}

}  // namespace troupe
