#include "troupe/engine/events/statistics_kernels.hpp"

namespace troupe {

std::vector<const statistics_kernels*> usable_kernels() {
  return {&plain_kernels};
}

}  // namespace troupe
