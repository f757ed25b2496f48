#include "troupe/base/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

thread_local bool files_have_no_status = false;

void refuses(const std::string& path, const std::string& why) {
  CHECK_THROWS_MATCHES(read_file(path), error,
                       MessageMatches(StartsWith(path + ": " + why)));
}

}  // namespace

// Replaces the system's function, which a test can't make fail.
extern "C" int fstat(int file, struct stat* status) {
  if (files_have_no_status) {
    errno = ESTALE;
    return -1;
  }
  return static_cast<int>(
    ::syscall(SYS_newfstatat, file, "", status, AT_EMPTY_PATH));
}

TEST_CASE("a file is read in parts or as a whole") {
  const testing::temporary_folder folder;
  const auto bytes = std::string(3 << 20, 'x') + "end";
  const auto path = folder.write("long", bytes);
  CHECK(read_file(path) == bytes);
  input_file file(path);
  CHECK(file.size() == bytes.size());
  CHECK(file.read(2) == "xx");
  CHECK(file.read() == bytes.substr(2));
  CHECK(file.read().empty());
  CHECK(read_file(folder.write("empty", "")).empty());
}

TEST_CASE("bytes at a place are copied, whatever was read before") {
  const testing::temporary_folder folder;
  input_file file(folder.write("a", "some text"));
  CHECK(file.read(4) == "some");
  std::string bytes(4, ' ');
  file.copy(5, std::as_writable_bytes(std::span(bytes)));
  CHECK(bytes == "text");
  CHECK(file.read() == " text");
  CHECK_THROWS_MATCHES(
    file.copy(6, std::as_writable_bytes(std::span(bytes))), error,
    MessageMatches(StartsWith(file.path() + ": ended while")));
  folder.write("a", "some");
  CHECK_THROWS_MATCHES(
    file.copy(5, std::as_writable_bytes(std::span(bytes))), error,
    MessageMatches(StartsWith(file.path() + ": was shortened from 9 to 4")));
}

TEST_CASE("a byte order mark is no part of a text") {
  const testing::temporary_folder folder;
  CHECK(read_file(folder.write("bom.txt", "\xEF\xBB\xBFtext")) == "text");
}

TEST_CASE("what can't be read is refused at once, by its name") {
  const testing::temporary_folder folder;
  refuses(folder / "absent", "can't be read: No such file or directory");
  refuses("/tmp", "is a folder, not a regular file");
  refuses("/dev/zero", "is a device or a socket, not a regular file");
  refuses("/proc/self/mem", "can't be read: ");  // in mid-file
  const auto pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  refuses(pipe, "is a pipe, not a regular file");
}

TEST_CASE("a file without a status is refused for the system's reason") {
  const testing::temporary_folder folder;
  const auto path = folder.write("a", "text");
  files_have_no_status = true;
  refuses(path, "can't be read: Stale file handle");
  files_have_no_status = false;
}
