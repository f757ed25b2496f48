#include "troupe/engine/events/statistics_code.hpp"
#include "troupe/engine/events/x86/kernels.hpp"

namespace troupe {

const statistics_kernels avx512_kernels = kernels_of<64>("avx512");

}  // namespace troupe
