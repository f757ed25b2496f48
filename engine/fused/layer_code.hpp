#pragma once

#include "troupe/engine/fused/activation_code.hpp"
#include "troupe/engine/fused/loss_code.hpp"
#include "troupe/engine/fused/norm_code.hpp"
#include "troupe/engine/fused/rotary_code.hpp"

namespace troupe::fused {

/// The kernels for vectors of that many bytes. There are none for bf16 below 64
/// bytes: converting it takes as many operations there as LibTorch's code.
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
