#include "troupe/engine/device/instruction_set.hpp"

#include <ATen/Version.h>

#include <algorithm>

namespace troupe {

namespace {

instruction_set of_processor() {
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return instruction_set::plain;
  const bool has_avx512 =
    __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
    && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has_avx512 ? instruction_set::avx512 : instruction_set::avx2;
#else
  return instruction_set::plain;
#endif
}

instruction_set of_libtorch() {
  const auto name = at::get_cpu_capability();
  return name == "DEFAULT" ? instruction_set::plain
         : name == "AVX2"  ? instruction_set::avx2
                           : instruction_set::avx512;
}

}  // namespace

instruction_set usable_instructions() {
  static const auto best = std::min(of_processor(), of_libtorch());
  return best;
}

}  // namespace troupe
