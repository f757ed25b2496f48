#include "troupe/engine/stage/numerics.hpp"

#include <cmath>

#include "troupe/base/error.hpp"

namespace troupe {

void require_legal(const numerics& options) {
  if (!options.loss)
    fail(error_code::invalid_argument,
         "there is no loss function; keep the default, or set `loss`");
  require_legal(options.optimizer);
  require_legal(options.parameters);
  require_legal(options.learning_rate);
  require_legal(options.dtypes);
  require_legal(options.division);
  if (options.autocast
      && options.dtypes.parameters.value_or(at::kFloat) != at::kFloat)
    throw error(error_code::invalid_argument,
                "autocast casts parameters of fp32 for each operator; omit it "
                "for 16-bit parameters");
  if (!(options.clip >= 0))
    fail(error_code::invalid_argument,
         "clip is {}; use 0 (no clipping) or a largest gradient norm",
         options.clip);
  if (!(options.loss_scale.initial > 0
        && options.loss_scale.initial <= largest_loss_scale))
    fail(error_code::invalid_argument,
         "the loss scale is {}; use a number above 0, and at most {:.4g}",
         options.loss_scale.initial, largest_loss_scale);
}

}  // namespace troupe
