#include "troupe/engine/data/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  fail(error_code::io, "{}: {}", path, what);
}

}  // namespace

mapped_file::mapped_file(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    fail(path_, fmt::format("can't be opened: {}", std::strerror(errno)));
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    fail(path_, "is not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0)
    return;
  void* index = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (index == MAP_FAILED) {
    const auto reason = std::strerror(errno);
    ::close(descriptor_);
    fail(path_, fmt::format("can't be mapped: {}", reason));
  }
  data_ = static_cast<const std::byte*>(index);
}

mapped_file::mapped_file(mapped_file&& other) noexcept
  : path_(std::move(other.path_)),
    descriptor_(std::exchange(other.descriptor_, -1)),
    data_(std::exchange(other.data_, nullptr)),
    size_(std::exchange(other.size_, 0)) {}

mapped_file::~mapped_file() {
  if (data_)
    ::munmap(const_cast<std::byte*>(data_), size_);
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void mapped_file::require_unchanged() const {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0 || status.st_nlink == 0)
    fail(path_,
         "was deleted while it was being read; put it back and start "
         "again");
  if (static_cast<std::size_t>(status.st_size) < size_)
    fail(path_, fmt::format("was shortened from {} to {} bytes while it was "
                            "being read",
                            size_, status.st_size));
}

}  // namespace troupe
