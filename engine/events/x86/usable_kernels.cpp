#include "troupe/engine/events/x86/kernels.hpp"

namespace troupe {

std::vector<const statistics_kernels*> usable_kernels() {
  std::vector<const statistics_kernels*> usable{&plain_kernels};
  if (__builtin_cpu_supports("avx2"))
    usable.push_back(&avx2_kernels);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
      && __builtin_cpu_supports("avx512dq")
      && __builtin_cpu_supports("avx512vl"))
    usable.push_back(&avx512_kernels);
  return usable;
}

}  // namespace troupe
