#include "troupe/monitors/live/attach_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

/// The most folders of one monitor's name and number, from earlier runs.
constexpr int most_tries = 100'000;

}  // namespace

attach_folder::attach_folder(const std::string& path) {
  const auto name = "--attach-folder " + printable(path);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    fail_io(name, "made", std::strerror(errno));
  folder_ =
    owned_descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (folder_.get() < 0 || ::fstat(folder_.get(), &status) != 0)
    fail_io(name, "opened", std::strerror(errno));
  if (status.st_uid != ::geteuid())
    fail(error_code::io,
         "{}: is the folder of user {}, and must be your own; give another "
         "one, which is made if it does not exist",
         name, status.st_uid);
  if ((status.st_mode & 022U) != 0)
    fail(error_code::io,
         "{}: others can write in this folder; run chmod go-w on it, or give "
         "another one",
         name);
  path_ = std::filesystem::absolute(path).string();
}

std::string attach_folder::make(const std::string& begin) const {
  for (int i = 1; i < most_tries; ++i) {
    const auto name = fmt::format("{}-{}", begin, i);
    if (::mkdirat(folder_.get(), name.c_str(), 0700) == 0)
      return name;
    if (errno != EEXIST)
      fail_io(printable(display_path(name)), "made", std::strerror(errno));
  }
  fail_io(printable(display_path(begin)), "made",
          "there are too many of that name");
}

std::string attach_folder::path_of(const std::string& name) const {
  return fmt::format("/proc/self/fd/{}/{}", folder_.get(), name);
}

std::string attach_folder::display_path(const std::string& name) const {
  return (std::filesystem::path(path_) / name).string();
}

}  // namespace troupe
