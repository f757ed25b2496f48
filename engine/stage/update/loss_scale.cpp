#include "troupe/engine/stage/update/loss_scale.hpp"

#include <cmath>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

std::string cause_of(const vain_skips& skips) {
  if (!skips.parameter.empty())
    return fmt::format("the parameter '{}' holds a NaN or an infinity",
                       printable(skips.parameter));
  if (!std::isfinite(skips.loss))
    return fmt::format("the loss is {}", printable(skips.loss));
  return fmt::format("the gradient of '{}' holds a NaN or an infinity",
                     printable(skips.gradient));
}

}  // namespace

void fail_in_vain(const loss_scale& scale, const vain_skips& skips) {
  fail(error_code::op_failed,
       "step {}: {} updates in a row were skipped at the smallest loss scale, "
       "{}: {}; use a lower learning rate, or bf16 (the monitor 'overflow' "
       "shows which module's output is the first)",
       skips.step, scale.skipped_in_vain(), scale.value(), cause_of(skips));
}

}  // namespace troupe
