#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "troupe/engine/fused/layer_kernels.hpp"

namespace troupe::fused {

/// Whether kernels compute with that tensor here: if there are some for its
/// dtype, and it is on the CPU and not empty.
bool has_kernels(const at::Tensor& x);

template <class T>
const layer_functions<T>& kernels_for() {
  if constexpr (std::is_same_v<T, float>)
    return chosen_layers()->fp32;
  else
    return chosen_layers()->bf16;
}

/// Calls run(T()) of the kernels' type for that tensor.
template <class Run>
void with_type_of(const at::Tensor& x, const Run& run) {
  if (x.scalar_type() == at::kFloat)
    run(float());
  else
    run(bf16_bits());
}

/// Null of an undefined tensor.
template <class T>
T* data_of(const at::Tensor& x) {
  return x.defined() ? static_cast<T*>(x.data_ptr()) : nullptr;
}

/// Calls run(first, end) for parts of `count` things of that many elements.
template <class Run>
void in_parallel(std::int64_t count, std::int64_t elements, const Run& run) {
  constexpr std::int64_t least_elements = 1 << 15;
  at::parallel_for(0, count,
                   std::max<std::int64_t>(least_elements / elements, 1), run);
}

/// Sums over rows are those over blocks of so many, then over these sums.
constexpr std::int64_t block_rows = 64;

/// Calls run(block, first row, its end) for all blocks.
template <class Run>
void for_each_block(std::int64_t rows, std::int64_t width, const Run& run) {
  const auto blocks = (rows + block_rows - 1) / block_rows;
  in_parallel(blocks, block_rows * width,
              [&](std::int64_t first, std::int64_t end) {
                for (auto i = first; i < end; ++i)
                  run(i, i * block_rows, std::min((i + 1) * block_rows, rows));
              });
}

/// Sets total, [width], to the sum of rows that begin `step` elements apart.
template <class T>
void sum_rows(const T* data, std::int64_t rows, std::int64_t width,
              std::int64_t step, float* total) {
  const auto& kernel = kernels_for<T>().sum_rows;
  if (rows <= block_rows) {
    kernel(data, rows, width, step, total);
    return;
  }
  const auto blocks = (rows + block_rows - 1) / block_rows;
  const std::unique_ptr<float[]> sums(
    new float[static_cast<std::size_t>(blocks * width)]);
  for_each_block(rows, width, [&](auto block, auto first, auto end) {
    kernel(data + first * step, end - first, width, step,
           sums.get() + block * width);
  });
  sum_rows<float>(sums.get(), blocks, width, width, total);
}

}  // namespace troupe::fused
