#include "troupe/engine/device/instruction_set.hpp"
#include "troupe/engine/events/x86/kernels.hpp"

namespace troupe {

std::vector<const statistics_kernels*> usable_kernels() {
  std::vector<const statistics_kernels*> usable{&plain_kernels};
  if (usable_instructions() >= instruction_set::avx2)
    usable.push_back(&avx2_kernels);
  if (usable_instructions() >= instruction_set::avx512)
    usable.push_back(&avx512_kernels);
  return usable;
}

}  // namespace troupe
