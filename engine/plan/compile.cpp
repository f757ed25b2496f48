#include "troupe/engine/plan/compile.hpp"

#include "troupe/engine/plan/passes.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

plan compile(const schedule& lanes, const compile_options& options) {
  validate(lanes);
  plan result;
  place_ops(lanes, options, result);
  connect(result);
  grant_credits(result, options.credits);
  return result;
}

}  // namespace troupe
