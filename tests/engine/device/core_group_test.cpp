#include "troupe/engine/device/core_group.hpp"

#include <sched.h>
#include <catch2/catch_test_macros.hpp>

#include <thread>

using namespace troupe;

TEST_CASE("a process's cores are those that its mask and control group allow") {
  const auto own = own_cores({});
  CHECK(own.cores >= 1);
  CHECK(own.name == own_cores({}).name);
  CHECK(own_cores({.cpus = 0.5}).cores == 0.5);
  CHECK(own_cores({.cpus = 0.5}).name != own.name);
}

TEST_CASE("processes that are bound to different cores share none") {
  const auto all = own_cores({});
  if (all.cores < 2)
    SKIP("needs two cores");
  core_group one;
  std::thread([&one] {  // a thread has a mask of its own
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ::sched_getaffinity(0, sizeof mask, &mask);
    for (int core = 0; CPU_COUNT(&mask) > 1; ++core)
      CPU_CLR(core, &mask);
    ::sched_setaffinity(0, sizeof mask, &mask);
    one = own_cores({});
  })
    .join();
  CHECK(one.cores == 1);
  CHECK(one.name != all.name);
}
