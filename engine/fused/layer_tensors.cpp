#include "troupe/engine/fused/layer_tensors.hpp"

#include <atomic>

namespace troupe::fused {

namespace {

std::atomic<const layer_kernels*>& best_layers() {
  static std::atomic kernels = [] {
    const auto* best = usable_layers().back();
    return best == &plain_layers ? nullptr : best;
  }();
  return kernels;
}

}  // namespace

const layer_kernels* chosen_layers() {
  return best_layers();
}

void use_layers(const layer_kernels* kernels) {
  best_layers() = kernels;
}

bool has_kernels(const at::Tensor& x) {
  const auto* kernels = chosen_layers();
  const auto type = x.scalar_type();
  return kernels
         && (type == at::kFloat
             || (type == at::kBFloat16 && kernels->bf16.normalize))
         && x.device().is_cpu() && x.layout() == at::kStrided && x.numel() > 0;
}

}  // namespace troupe::fused
