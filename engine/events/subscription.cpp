#include "troupe/engine/events/subscription.hpp"

#include <fnmatch.h>

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/engine/events/globs.hpp"

namespace troupe {

bool matches_glob(const std::string& patterns, const std::string& name) {
  return patterns == "*"
         || std::ranges::any_of(
           globs_of(patterns), [&](const std::string& one) {
             return ::fnmatch(one.c_str(), name.c_str(), 0) == 0;
           });
}

void require_legal(const subscription& wants) {
  if (wants.every < 1)
    fail(error_code::invalid_argument,
         "a subscription's 'every' is {}; use 1 or more steps", wants.every);
  if (!(wants.sample.share >= 0 && wants.sample.share <= 1))
    fail(error_code::invalid_argument,
         "a subscription's 'sample' is {}; use a share of the rows from 0 to 1",
         wants.sample.share);
  if (wants.tensors == tensor_kind::none)
    return;
  require_globs(wants.names);
}

bool subscription::covers_step(std::int64_t step) const {
  return step >= first && step <= last && (step - first) % every == 0;
}

bool subscription::wants_tensors(std::int64_t step, phase phase) const {
  return tensors != tensor_kind::none && covers_step(step)
         && (phase == phase::training || validation);
}

bool subscription::wants(tensor_kind kind, const std::string& name) const {
  return has(tensors, kind)
         && (kind == tensor_kind::loss || matches_glob(names, name));
}

}  // namespace troupe
