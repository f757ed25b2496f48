#include "troupe/engine/events/statistics_code.hpp"

namespace troupe {

const statistics_kernels plain_kernels = kernels_of<16>("plain");

}  // namespace troupe
