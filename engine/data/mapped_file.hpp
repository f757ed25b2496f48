#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe {

/// A file mapped read-only into memory. Movable, not copyable; several threads
/// may read it.
class mapped_file {
 public:
  /// Throws `io` with the path and the system's reason.
  explicit mapped_file(std::string path);
  mapped_file(mapped_file&& other) noexcept;
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  mapped_file& operator=(mapped_file&&) = delete;
  ~mapped_file();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Throws `io` if the file was deleted or shortened since it was opened:
  /// reading on would give garbage or a bus error.
  void require_unchanged() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace troupe
