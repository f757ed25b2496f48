#include "troupe/engine/device/thread_supply.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <fstream>

#include "troupe/base/error.hpp"

using namespace troupe;

namespace {

/// Bytes of this process's address space.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

/// The exit code of a process with room for some threads' stacks: 1 if it is
/// refused so many, 0 if not.
int refused(std::size_t threads) {
  const auto child = ::fork();
  if (child == 0) {
    const rlimit stacks{rlim_t{8} << 20U, RLIM_INFINITY};
    const auto limit = address_space() + (rlim_t{256} << 20U);
    const rlimit memory{limit, limit};
    ::setrlimit(RLIMIT_STACK, &stacks);
    ::setrlimit(RLIMIT_AS, &memory);
    try {
      require_threads(threads);
    } catch (const error& reason) {
      ::_exit(reason.code() == error_code::device
                  && std::strstr(reason.what(), "raise the limits") != nullptr
                ? 1
                : 2);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("too many threads are refused, and none is left behind") {
  require_threads(8);
  CHECK(refused(2) == 0);
  CHECK(refused(1000) == 1);
}
