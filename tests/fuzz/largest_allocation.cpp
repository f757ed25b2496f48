#include "largest_allocation.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace {

std::size_t largest = 0;

}  // namespace

std::size_t& troupe::testing::largest_allocation() {
  return largest;
}

// The other forms of `new` call this one. The address sanitizer has its own,
// and matches each with its delete.
#ifndef __SANITIZE_ADDRESS__
void* operator new(std::size_t size) {
  largest = std::max(largest, size);
  if (auto* memory = std::malloc(size))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void* what) noexcept {
  std::free(what);
}
void operator delete(void* what, std::size_t) noexcept {
  std::free(what);
}
#endif
