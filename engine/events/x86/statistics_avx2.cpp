#include "troupe/engine/events/statistics_code.hpp"
#include "troupe/engine/events/x86/kernels.hpp"

namespace troupe {

const statistics_kernels avx2_kernels = kernels_of<32>("avx2");

}  // namespace troupe
