#include "troupe/engine/device/threads.hpp"

#include <ATen/Parallel.h>

namespace troupe {

void set_intra_op_threads(int count) {
  at::set_num_threads(count);
}

}  // namespace troupe
