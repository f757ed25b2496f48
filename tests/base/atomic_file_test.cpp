#include "troupe/base/atomic_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "../files.hpp"
#include "../says.hpp"
#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/patient_write.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::atomic<int> umask_calls = 0, folders_synchronised = 0;

mode_t rights_of(const std::string& path) {
  struct stat status = {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777U;
}

mode_t set_mask(mode_t to) {
  return static_cast<mode_t>(::syscall(SYS_umask, to));
}

}  // namespace

// Replaces the system's function, to count this program's calls.
extern "C" mode_t umask(mode_t to) {
  ++umask_calls;
  return set_mask(to);
}
extern "C" int fsync(int file) {
  struct stat status = {};
  if (::fstat(file, &status) == 0 && S_ISDIR(status.st_mode))
    ++folders_synchronised;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

TEST_CASE("files get a new file's permissions, without reading the umask") {
  const temporary_folder folder;
  const auto before = set_mask(027);
  umask_calls = 0;
  write_file_atomically(folder / "a", "some bytes");
  set_mask(before);
  CHECK(rights_of(folder / "a") == 0640);
  CHECK(content(folder / "a") == "some bytes");
  CHECK(umask_calls == 0);
}

TEST_CASE("the folder is synchronised once the file is in place") {
  const temporary_folder folder;
  folders_synchronised = 0;
  {
    atomic_file file(folder / "a");
    file.write("x");
    CHECK(folders_synchronised == 0);
    file.commit();
  }
  CHECK(folders_synchronised == 1);
}

TEST_CASE("a file that can't be finished leaves nothing, old bytes stay") {
  const temporary_folder folder;
  const auto path = folder.write("a", "old");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{1000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  CHECK_THROWS_MATCHES(
    write_file_atomically(path, std::string(2000, 'x')), error,
    MessageMatches(
      ContainsSubstring(path + ": can't be written: File too large")));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(content(path) == "old");
  const auto files = std::filesystem::directory_iterator(folder / "");
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("temporary files of dead writers are removed, no others") {
  const temporary_folder folder;
  const auto path = folder / "a";
  const auto dead = folder.write("a.troupe-0123abcd", "half");
  const std::vector<std::string> others{
    folder.write("b.troupe-0123abcd", "another file's"),
    folder.write("a.troupe-0123abcd.old", "a user's"),
    folder.write("a.20261125", "a user's")};
  atomic_file alive(path);
  alive.write("new");
  remove_abandoned_temporaries(path);
  CHECK_FALSE(std::filesystem::exists(dead));
  for (const auto& other : others)
    CHECK(std::filesystem::exists(other));
  alive.commit();
  CHECK(content(path) == "new");
  const auto files = std::filesystem::directory_iterator(folder / "");
  CHECK(std::distance(begin(files), end(files)) == 4);
  remove_abandoned_temporaries(folder / "absent/a");
}

TEST_CASE("temporary files of a link's target are removed, too") {
  const temporary_folder folder;
  folder.write("a", "old");
  std::filesystem::create_symlink("a", folder / "link");
  const auto dead = folder.write("a.troupe-0123abcd", "half");
  remove_abandoned_temporaries(folder / "link");
  CHECK_FALSE(std::filesystem::exists(dead));
}

TEST_CASE("a folder that takes no files is named, not a file in it") {
  CHECK_THROWS_MATCHES(require_writable_folder("/proc"), error,
                       says("/proc: can't create files in this folder: "
                            "No such file or directory"));
}

TEST_CASE("a pipe without a reader is given up") {
  const temporary_folder folder;
  const auto path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  errno = 0;
  CHECK(open_in_place(path.c_str(), 0.01) == -1);
  CHECK_THAT(write_problem(errno), ContainsSubstring("has no reader"));
  const auto reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  const auto writer = open_in_place(path.c_str(), 0.01);
  REQUIRE(writer >= 0);
  CHECK_FALSE(write_all(writer, std::string(1 << 20, 'x'), 0.01));
  CHECK_THAT(write_problem(errno), ContainsSubstring("is not reading"));
  ::close(reader);
  ::close(writer);
}

TEST_CASE("a file that is a pipe waits two seconds for its reader") {
  const temporary_folder folder;
  const auto path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_MATCHES(atomic_file(path), error, says("has no reader"));
  const auto waited = std::chrono::steady_clock::now() - begin;
  CHECK(waited >= std::chrono::milliseconds(1900));
  CHECK(waited < std::chrono::seconds(8));
}

TEST_CASE("a pipe gets all, however slow its reader") {
  const temporary_folder folder;
  const auto path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const auto written = std::async(std::launch::async, [&] {
    write_file_atomically(path, std::string(1 << 20, 'x'));
  });
  CHECK(content(path) == std::string(1 << 20, 'x'));
}
