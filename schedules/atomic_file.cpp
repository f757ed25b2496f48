#include "troupe/schedules/atomic_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "troupe/schedules/error.hpp"

namespace troupe {

atomic_file::atomic_file(std::string path)
  : path_(std::move(path)), temporary_(path_ + ".XXXXXX") {
  descriptor_ = ::mkostemp(temporary_.data(), 0);
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
  if (::fchmod(descriptor_, 0666 & ~mask) != 0 || ::fsync(descriptor_) != 0)
    fail("written");
  if (::close(std::exchange(descriptor_, -1)) != 0)
    fail("written");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("put in place");
  temporary_.clear();
}

void atomic_file::fail(const char* doing) const {
  troupe::fail(error_code::io, "{}: can't be {}: {}", path_, doing,
               std::strerror(errno));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // A pipe or a device (/dev/stdout) can't be renamed over.
    std::FILE* file = std::fopen(path.c_str(), "w");
    const bool fine =
      file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    const bool closed = !file || std::fclose(file) == 0;
    if (!fine || !closed)
      troupe::fail(error_code::io, "{}: can't be written: {}", path,
                   std::strerror(errno));
    return;
  }
  atomic_file file(path);
  file.write(bytes);
  file.commit();
}

void require_writable(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    if (::access(path.c_str(), W_OK) != 0 || S_ISDIR(status.st_mode))
      troupe::fail(error_code::io, "{}: can't be written", path);
    return;
  }
  atomic_file probe(path);
}

}  // namespace troupe
