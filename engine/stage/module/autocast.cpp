#include "troupe/engine/stage/module/autocast.hpp"

#include <ATen/autocast_mode.h>

namespace troupe {

autocast_scope::autocast_scope(std::optional<at::ScalarType> dtype,
                               c10::DeviceType device)
  : active_(dtype.has_value()), device_(device) {
  if (!active_)
    return;
  enabled_before_ = at::autocast::is_autocast_enabled(device);
  dtype_before_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_dtype(device, *dtype);
  at::autocast::set_autocast_enabled(device, true);
  at::autocast::increment_nesting();
}

autocast_scope::~autocast_scope() {
  if (!active_)
    return;
  // Cached copies of weights would be outdated after an update.
  if (at::autocast::decrement_nesting() == 0)
    at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

at::ScalarType compute_type(const at::Tensor& x) {
  const auto device = x.device().type();
  return at::autocast::is_autocast_enabled(device)
           ? at::autocast::get_autocast_dtype(device)
           : x.scalar_type();
}

}  // namespace troupe
