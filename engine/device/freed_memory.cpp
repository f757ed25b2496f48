#include "troupe/engine/device/freed_memory.hpp"

#include <malloc.h>

// Functions of tcmalloc; null in a program without it.
extern "C" {
[[gnu::weak]] void MallocExtension_ReleaseFreeMemory();
}

namespace troupe {

void return_freed_memory() {
  if (MallocExtension_ReleaseFreeMemory != nullptr)
    MallocExtension_ReleaseFreeMemory();
  else
    ::malloc_trim(0);
}

}  // namespace troupe
