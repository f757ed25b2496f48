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

// One for all: the others call these. The address sanitizer has its own, and
// holds every one against its delete.
#ifndef __SANITIZE_ADDRESS__
void* operator new(std::size_t size) {
  largest = std::max(largest, size);
  if (auto* made = std::malloc(size))
    return made;
  throw std::bad_alloc();
}
void operator delete(void* what) noexcept {
  std::free(what);
}
void operator delete(void* what, std::size_t) noexcept {
  std::free(what);
}
#endif
