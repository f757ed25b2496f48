#include "troupe/base/private_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "../says.hpp"
#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a secret is its owner's alone, and a trusted file nobody else's") {
  const temporary_folder folder;
  const auto path = folder.write("file", "text");
  for (const auto mode : {0600U, 0400U}) {
    ::chmod(path.c_str(), mode);
    CHECK_NOTHROW(require_private(input_file(path)));
  }
  ::chmod(path.c_str(), 0644);
  CHECK_NOTHROW(require_trustworthy(input_file(path)));
  CHECK_THROWS_MATCHES(require_private(input_file(path)), error,
                       says("run chmod 600"));
  ::chmod(path.c_str(), 0664);
  CHECK_THROWS_MATCHES(require_trustworthy(input_file(path)), error,
                       says("run chmod go-w"));
}

TEST_CASE("another user's file is no secret of this one, whatever its mode") {
  if (::geteuid() != 0)
    SKIP("only root can give a file to another user");
  const temporary_folder folder;
  const auto path = folder.write("file", "text");
  ::chmod(path.c_str(), 0600);
  REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  for (const auto& check : {require_private, require_trustworthy})
    CHECK_THROWS_MATCHES(check(input_file(path)), error,
                         says("belongs to user 65534"));
}
