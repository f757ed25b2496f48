#include "troupe/actors/system/spin_sharing.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <fstream>
#include <set>

#include "troupe/actors/system/caf.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;

namespace {

constexpr rlim_t mebibyte = rlim_t{1} << 20U;
constexpr int started = 0, refused = 1, wrong_error = 2;

/// The size of this process's address space, in bytes.
rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

struct four_workers : caf::actor_system_config {
  four_workers() {
    module_factories.push_back([](caf::actor_system& system) {
      return spin_sharing_scheduler::make(system);
    });
    set("caf.scheduler.max-threads", 4);
  }
};

int start_system() {
  caf::core::init_global_meta_objects();
  try {
    four_workers config;
    caf::actor_system system(config);
    scheduler_of(system).require_started();
    return started;
  } catch (const error& reason) {
    const bool right = reason.code() == error_code::device
                       && std::strstr(reason.what(), "ulimit -u") != nullptr;
    return right ? refused : wrong_error;
  } catch (const std::system_error&) {
    return refused;  // CAF's first thread, which starts before the scheduler
  }
}

/// The exit code of a process with room for so many stacks of 64 MiB.
int exit_with_room(rlim_t stacks) {
  const auto child = ::fork();
  if (child == 0) {
    const rlimit stack{64 * mebibyte, RLIM_INFINITY};
    const auto limit = address_space() + (64 * stacks + 32) * mebibyte;
    const rlimit memory{limit, limit};
    ::setrlimit(RLIMIT_STACK, &stack);
    ::setrlimit(RLIMIT_AS, &memory);
    ::alarm(20);
    ::_exit(start_system());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("whichever thread can't be started, the actor system ends") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  SKIP("sanitizers reserve terabytes of address space");
#endif
  std::set<int> ends;
  for (rlim_t stacks = 0; stacks < 16; ++stacks)
    ends.insert(exit_with_room(stacks));
  CHECK(ends == std::set{started, refused});
}
