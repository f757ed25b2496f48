#include "troupe/engine/stage/update/loss_scale.hpp"

#include <cmath>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

std::string first_of(const vain_skips& what) {
  if (!what.parameter.empty())
    return fmt::format("the parameter '{}' holds a NaN or an infinity",
                       printable(what.parameter));
  if (!std::isfinite(what.loss))
    return fmt::format("the loss is {}", printable(what.loss));
  return fmt::format("the gradient of '{}' holds a NaN or an infinity",
                     printable(what.gradient));
}

}  // namespace

void fail_in_vain(const loss_scale& scale, const vain_skips& what) {
  fail(error_code::op_failed,
       "step {}: {} updates in a row were skipped at the smallest loss scale, "
       "{}: {}; use a lower learning rate, or bf16 (the monitor 'overflow' "
       "shows which module's output is the first)",
       what.step, scale.skipped_in_vain(), scale.value(), first_of(what));
}

}  // namespace troupe
