#include "troupe/engine/checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

#include "../../expect.hpp"
#include "../../files.hpp"
#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

int lost_looks = 0;     // how many of the next stats of a lock's file fail
bool has_locks = true;  // whether the file system supports locks

}  // namespace

// Replaces the system's function, which a test can't make fail.
extern "C" int stat(const char* path, struct stat* status) {
  if (lost_looks > 0 && std::string_view(path).ends_with("/.lock")) {
    --lost_looks;
    errno = ESTALE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}

extern "C" int fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  const auto* value = va_arg(more, void*);
  va_end(more);
  if (!has_locks && command == F_OFD_SETLK) {
    errno = ENOLCK;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fcntl, descriptor, command, value));
}

TEST_CASE("a lock whose file is not found for a moment is kept") {
  const temporary_folder at;
  folder_lock own(at / "all");
  const auto text = content(at / "all/.lock");
  for (const int looks : {1, 2, 3}) {
    lost_looks = looks;
    CHECK(own.renew().empty());
    CHECK(lost_looks == 0);
    CHECK(content(at / "all/.lock") == text);
    CHECK_THROWS_MATCHES(folder_lock{at / "all"}, error, says("in use"));
  }
}

TEST_CASE("a renewal returns why the folder could not be locked") {
  const temporary_folder at;
  folder_lock own(at / "all");
  CHECK(own.problem().empty());
  std::filesystem::remove_all(at / "all");
  has_locks = false;
  const auto problem = own.renew();
  has_locks = true;
  CHECK(problem
        == (at / "all/.lock") + ": can't be locked: No locks available");
  CHECK(own.problem() == problem);
  CHECK(own.renew().empty());
  std::filesystem::remove_all(at / "all");
  CHECK(own.renew().empty());
  CHECK(own.problem().empty());
}

namespace {

/// Runs a function on its own thread with this umask and, if this process is
/// root, as another user. Returns the text of its error.
std::string run_as_other(mode_t mask, const std::function<void()>& work) {
  std::string text;
  std::thread([&] {
    constexpr auto nobody = 65534;
    ::unshare(CLONE_FS);
    ::umask(mask);
    if (::geteuid() == 0)  // of this thread only, unlike glibc's function
      ::syscall(SYS_setresuid, -1, nobody, -1);
    try {
      work();
    } catch (const std::exception& reason) {
      text = reason.what();
    }
  }).join();
  return text;
}

mode_t rights_of(const std::string& path) {
  struct stat status = {};
  expect(::stat(path.c_str(), &status) == 0, "there is " + path);
  return status.st_mode & 0777U;
}

}  // namespace

TEST_CASE("a lock has the access rights of any new file") {
  const temporary_folder at;
  ::chmod((at / "").c_str(), 0777);
  mode_t rights = 0;
  CHECK(run_as_other(0002,
                     [&] {
                       const folder_lock own(at / "all");
                       rights = rights_of(at / "all/.lock");
                     })
        == "");
  CHECK(rights == 0664);
}

TEST_CASE("a lock that another user's killed job left is replaced") {
  const temporary_folder at;
  ::chmod((at / "").c_str(), 0777);
  const auto file = at.write(".lock", "process 7 on a host");
  ::chmod(file.c_str(), 0444);
  CHECK(run_as_other(0022,
                     [&] {
                       const folder_lock own(at / "");
                       expect(own.problem().empty(), "it is locked");
                       expect(content(file) != "process 7 on a host",
                              "it is replaced");
                     })
        == "");
  // Here the file can't be removed, either.
  at.write(".lock", "process 7 on a host");
  ::chmod(file.c_str(), 0444);
  ::chmod((at / "").c_str(), 01777);
  if (::geteuid() == 0)
    CHECK_THAT(run_as_other(0022, [&] { folder_lock own(at / ""); }),
               Catch::Matchers::ContainsSubstring("may neither write nor"));
}

TEST_CASE("a lock that another user's job holds is respected") {
  const temporary_folder at;
  ::chmod((at / "").c_str(), 0777);
  const folder_lock own(at / "");
  ::chmod((at / ".lock").c_str(), 0444);
  CHECK_THAT(run_as_other(0022, [&] { folder_lock other(at / ""); }),
             Catch::Matchers::ContainsSubstring("in use: process "));
}

TEST_CASE("a folder is taken over from a process that still has it") {
  const temporary_folder at;
  folder_lock stale(at / "all");
  take_over_folder(at / "all");
  const folder_lock own(at / "all");
  CHECK_THROWS_AS(stale.renew(), error);
  CHECK(std::filesystem::exists(at / "all/.lock"));
}
