#include "troupe/engine/device/thread_supply.hpp"

#include <exception>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "troupe/base/error.hpp"

namespace troupe {

void require_threads(std::size_t count) {
  std::latch over(1);
  std::vector<std::thread> started;
  started.reserve(count);
  std::string trouble;
  try {
    while (started.size() < count)
      started.emplace_back([&over] { over.wait(); });
  } catch (const std::exception& reason) {
    trouble = reason.what();
  }
  const auto there = started.size();
  over.count_down();
  for (auto& each : started)
    each.join();
  if (there < count)
    fail(error_code::device,
         "this process can't start the {} threads that a run needs, only {}: "
         "{}; raise the limits of processes (ulimit -u, the cgroup's pids.max) "
         "or of memory (ulimit -v), or use fewer ranks",
         count, there, trouble);
}

}  // namespace troupe
