#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// While it lives, operators on this thread that gain from it compute in
/// `dtype` (bf16, fp16), others in fp32, by LibTorch's lists for that kind of
/// device. Parameters and their gradients stay fp32 (Micikevicius et al.).
/// Backwards use the dtypes of their forwards, and need no scope.
class autocast_scope {
 public:
  /// Does nothing without a dtype.
  autocast_scope(std::optional<at::ScalarType> dtype, c10::DeviceType device);
  autocast_scope(const autocast_scope&) = delete;
  autocast_scope& operator=(const autocast_scope&) = delete;
  ~autocast_scope();

 private:
  bool active_;
  c10::DeviceType device_;
  bool enabled_before_ = false;
  at::ScalarType dtype_before_ = at::kBFloat16;
};

/// The dtype in which matrix products of `x` are computed: within a scope it
/// may differ from that of `x`.
at::ScalarType compute_type(const at::Tensor& x);

}  // namespace troupe
