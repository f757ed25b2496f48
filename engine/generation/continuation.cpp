#include "troupe/engine/generation/continuation.hpp"

#include <algorithm>
#include <utility>

#include "troupe/engine/generation/sampling.hpp"

namespace troupe {

continuation::continuation(generation_request request,
                           const generation_options& options)
  : request_(std::move(request)), options_(&options) {
  if (request_.tokens == 0)
    result_.end = generation_end::tokens;
}

std::int64_t continuation::choose(const at::Tensor& logits) const {
  return next_token(logits, request_.sampling, std::ssize(result_.ids));
}

/// The last token needs no position: nothing is read behind it.
std::int64_t continuation::left() const {
  if (ended())
    return 0;
  const auto wanted = request_.tokens - std::ssize(result_.ids);
  if (options_->length == 0)
    return wanted;
  const auto positions = std::ssize(request_.ids) + std::ssize(result_.ids);
  return std::min(wanted, options_->length + 1 - positions);
}

void continuation::append(std::int64_t id) {
  if (ended())
    return;
  result_.ids.push_back(id);
  if (meets_stop())
    result_.end = generation_end::stop;
  else if (std::ssize(result_.ids) == request_.tokens)
    result_.end = generation_end::tokens;
  else if (left() == 0)
    result_.end = generation_end::context;
}

bool continuation::meets_stop() {
  auto& ids = result_.ids;
  for (const auto& stop : options_->stops)
    if (ids.size() >= stop.size()
        && std::equal(stop.rbegin(), stop.rend(), ids.rbegin())) {
      ids.resize(ids.size() - stop.size());
      return true;
    }
  return false;
}

}  // namespace troupe
