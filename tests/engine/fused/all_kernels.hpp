#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>

#include <catch2/catch_test_macros.hpp>
#include <utility>
#include <vector>

#include "troupe/engine/fused/layer_kernels.hpp"

namespace troupe {

template <class Check>
void with_these(const std::vector<const fused::layer_kernels*>& all,
                const Check& check) {
  const auto* chosen = fused::chosen_layers();
  for (const auto* kernels : all) {
    INFO((kernels ? kernels->name : "LibTorch"));
    fused::use_layers(kernels);
    check();
  }
  fused::use_layers(chosen);
}

/// Calls check() with each instruction set's kernels.
template <class Check>
void with_kernels(const Check& check) {
  with_these(fused::usable_layers(), check);
}

/// The same, and with none.
template <class Check>
void with_all_kernels(const Check& check) {
  auto all = fused::usable_layers();
  all.push_back(nullptr);
  with_these(all, check);
}

/// make() with one thread and with three.
template <class Make>
auto with_threads(const Make& make) {
  const auto threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = make();
  at::set_num_threads(3);
  const auto three = make();
  at::set_num_threads(threads);
  return std::pair(one, three);
}

inline at::Tensor random_of(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

/// The largest difference over the largest value.
inline double relative_error(const at::Tensor& found, const at::Tensor& exact) {
  REQUIRE(found.sizes() == exact.sizes());
  const auto largest = exact.abs().max().item<double>();
  return (found.to(at::kDouble) - exact).abs().max().item<double>()
         / (largest > 0 ? largest : 1);
}

/// Whether the same elements are NaN, and the same infinite.
inline bool is_finite_as(const at::Tensor& found, const at::Tensor& exact) {
  return found.isnan().equal(exact.isnan())
         && found.isposinf().equal(exact.isposinf())
         && found.isneginf().equal(exact.isneginf());
}

}  // namespace troupe
