#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

namespace troupe::testing {

/// A file in memory, for functions that take a path.
class file_of_bytes {
 public:
  explicit file_of_bytes(std::string_view bytes)
    : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)),
      path_("/proc/self/fd/" + std::to_string(descriptor_)) {
    [[maybe_unused]] const auto done =
      ::write(descriptor_, bytes.data(), bytes.size());
  }
  file_of_bytes(const file_of_bytes&) = delete;
  file_of_bytes& operator=(const file_of_bytes&) = delete;
  ~file_of_bytes() { ::close(descriptor_); }

  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace troupe::testing
