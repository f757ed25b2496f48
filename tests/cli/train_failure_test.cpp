#include "troupe/cli/signals.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("a process ends soon though it is busy") {
  const auto child = ::fork();
  if (child == 0) {
    cli::end_soon(7, std::chrono::milliseconds(1));
    for (;;)
      ::pause();
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}
