#include "troupe/engine/stage/update/loss_scale.hpp"

namespace troupe {

void loss_scale::update(bool finite) {
  if (!options_.dynamic)
    return;
  if (!finite) {
    value_ = std::max(value_ / 2, smallest_loss_scale);
    good_steps_ = 0;
  } else if (++good_steps_ == options_.growth_interval) {
    value_ = std::min(2 * value_, largest_loss_scale);
    good_steps_ = 0;
  }
}

}  // namespace troupe
