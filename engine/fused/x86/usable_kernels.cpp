#include "troupe/engine/device/instruction_set.hpp"
#include "troupe/engine/fused/x86/kernels.hpp"

namespace troupe::fused {

namespace {

template <class Kernels>
std::vector<const Kernels*> usable(const Kernels& plain, const Kernels& avx2,
                                   const Kernels& avx512) {
  std::vector all{&plain};
  if (usable_instructions() >= instruction_set::avx2)
    all.push_back(&avx2);
  if (usable_instructions() >= instruction_set::avx512)
    all.push_back(&avx512);
  return all;
}

}  // namespace

std::vector<const attention_kernels*> usable_attention() {
  return usable(plain_attention, avx2_attention, avx512_attention);
}

std::vector<const layer_kernels*> usable_layers() {
  return usable(plain_layers, avx2_layers, avx512_layers);
}

}  // namespace troupe::fused
