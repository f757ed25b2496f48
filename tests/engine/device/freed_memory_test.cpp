#include "troupe/engine/device/freed_memory.hpp"

#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <vector>

#include "troupe/engine/device/memory.hpp"

using namespace troupe;

// The sanitizers keep freed memory.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("memory that was freed in small pieces is returned", "[serial]") {
  constexpr std::int64_t piece = 600, pieces = 300'000;
  {
    std::vector<std::unique_ptr<char[]>> all;
    for (std::int64_t i = 0; i < pieces; ++i)
      all.push_back(std::make_unique<char[]>(piece));
  }
  return_freed_memory();
  const auto before = resident_bytes();
  {
    std::vector<std::unique_ptr<char[]>> all;
    for (std::int64_t i = 0; i < pieces; ++i)
      all.push_back(std::make_unique<char[]>(piece));
    CHECK(resident_bytes() > before + pieces * piece / 2);
  }
  return_freed_memory();
  CHECK(resident_bytes() < before + pieces * piece / 4);
}
#endif
