#pragma once

#include <malloc.h>

#include <cstddef>
#include <cstdint>

// Functions of tcmalloc and of the address sanitizer; null in a program without
// them.
extern "C" {
[[gnu::weak]] int MallocExtension_GetNumericProperty(const char* name,
                                                     std::size_t* value);
[[gnu::weak]] std::size_t __sanitizer_get_current_allocated_bytes();
}

namespace troupe::testing {

/// Bytes that the program's allocator has given out and not taken back, over
/// all threads. Debian's tcmalloc answers mallinfo only, so that mallinfo2
/// would always report the C library's own, unused heap.
inline std::int64_t allocated_bytes() {
  std::size_t bytes = 0;
  if (__sanitizer_get_current_allocated_bytes != nullptr)
    bytes = __sanitizer_get_current_allocated_bytes();
  else if (MallocExtension_GetNumericProperty != nullptr)
    MallocExtension_GetNumericProperty("generic.current_allocated_bytes",
                                       &bytes);
  else {
    const auto heap = ::mallinfo2();
    bytes = heap.uordblks + heap.hblkhd;
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace troupe::testing
