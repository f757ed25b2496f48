#include "troupe/engine/device/threads.hpp"

#include <ATen/Parallel.h>

namespace troupe {

void set_intra_op_threads(int count) {
  // A thread's first use takes the number of the process. That is now, not
  // after this, when another thread may have set it.
  at::get_num_threads();
  at::set_num_threads(count);
}

}  // namespace troupe
