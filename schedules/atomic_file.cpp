#include "troupe/schedules/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

/// Whether something stands there that can't be renamed over: a pipe, a
/// device, a folder.
bool is_special(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

/// A link's target, so that it is the target that is replaced.
std::string without_links(std::string path) {
  std::error_code trouble;
  if (std::filesystem::is_symlink(path, trouble))
    return std::filesystem::weakly_canonical(path, trouble).string();
  return path;
}

}  // namespace

atomic_file::atomic_file(std::string path)
  : path_(without_links(std::move(path))) {
  if (is_special(path_)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    in_place_ = true;
  } else {
    temporary_ = path_ + ".XXXXXX";
    descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  }
  if (descriptor_ < 0) {
    temporary_.clear();
    fail("created");
  }
}

atomic_file::~atomic_file() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
}

void atomic_file::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      fail("written");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void atomic_file::commit() {
  const auto mask = ::umask(0);
  ::umask(mask);
  const auto rights = static_cast<mode_t>(0666 & ~mask);
  if (!in_place_
      && (::fchmod(descriptor_, rights) != 0 || ::fsync(descriptor_) != 0))
    fail("written");
  if (::close(std::exchange(descriptor_, -1)) != 0)
    fail("written");
  if (!in_place_ && ::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("put in place");
  temporary_.clear();
}

void atomic_file::fail(const char* doing) const {
  troupe::fail(error_code::io, "{}: can't be {}: {}", path_, doing,
               std::strerror(errno));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  atomic_file file(path);
  file.write(bytes);
  file.commit();
}

void require_writable(const std::string& path) {
  if (!is_special(path)) {
    atomic_file probe(path);
    return;
  }
  if (::access(path.c_str(), W_OK) != 0 || std::filesystem::is_directory(path))
    troupe::fail(error_code::io, "{}: can't be written", path);
}

void require_writable_folder(const std::string& path) {
  std::error_code trouble;
  std::filesystem::create_directories(path, trouble);
  if (trouble)
    troupe::fail(error_code::io, "{}: can't be created: {}", path,
                 trouble.message());
  if (!std::filesystem::is_directory(path))
    troupe::fail(error_code::io, "{}: is no folder", path);
  // Rights don't tell all: there are file systems that take no files.
  atomic_file probe((std::filesystem::path(path) / "probe").string());
}

}  // namespace troupe
