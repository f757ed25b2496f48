#include "troupe/base/file_lock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <filesystem>

#include "../temporary_folder.hpp"

using namespace troupe;

TEST_CASE("a file is locked until its descriptor is closed") {
  const testing::temporary_folder folder;
  const auto path = folder.write("a", "text");
  const auto first = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const auto second = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(lock_file(first) == 0);
  CHECK(lock_file(second) == EAGAIN);
  ::close(first);
  CHECK(lock_file(second) == 0);
  ::close(second);
  CHECK(lock_file(second) == EBADF);
}

TEST_CASE("a file that was replaced is not the one at its path") {
  const testing::temporary_folder folder;
  const auto path = folder.write("a", "text");
  const auto file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  CHECK(is_file_at(file, path));
  std::filesystem::rename(folder.write("b", "other"), path);
  CHECK_FALSE(is_file_at(file, path));
  ::close(file);
}
