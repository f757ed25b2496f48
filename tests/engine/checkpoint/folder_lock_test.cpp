#include "troupe/engine/checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <string_view>

#include "../../files.hpp"
#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

int lost_looks = 0;     // of the next ones at a lock's file
bool has_locks = true;  // whether the file system does

}  // namespace

// In place of the system's, which a test can't make fail.
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
