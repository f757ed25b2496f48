#pragma once

#include "troupe/engine/fused/activation_code.hpp"
#include "troupe/engine/fused/loss_code.hpp"
#include "troupe/engine/fused/norm_code.hpp"
#include "troupe/engine/fused/rotary_code.hpp"

namespace troupe::fused {

/// Kernels with vectors of that many bytes. Those of fewer than 64 convert bf16
/// in as many operations as LibTorch's, and have no kernels for it.
template <int Bytes>
constexpr layer_kernels layer_kernels_of(const char* name) {
  layer_kernels all{name, {}, {}};
  norm_code<Bytes>::set(all.fp32);
  activation_code<Bytes>::set(all.fp32);
  loss_code<Bytes>::set(all.fp32);
  rotary_code<Bytes>::set(all.fp32);
  if constexpr (Bytes == 64) {
    norm_code<Bytes>::set(all.bf16);
    activation_code<Bytes>::set(all.bf16);
    loss_code<Bytes>::set(all.bf16);
    rotary_code<Bytes>::set(all.bf16);
  }
  return all;
}

}  // namespace troupe::fused
