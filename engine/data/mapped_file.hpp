#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "troupe/base/input_file.hpp"

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

  const std::string& path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return {data_, file_.size()}; }

  /// Copies bytes from `first` on by reading them, which holds no pages of the
  /// file in this process's memory. Throws `io`.
  void copy(std::size_t first, std::span<std::byte> out) const;
  /// Throws `io` if the file was deleted or shortened since it was opened:
  /// reading on would give garbage or a bus error.
  void require_unchanged() const;

 private:
  input_file file_;
  const std::byte* data_ = nullptr;
};

/// A file's size, and a hash of it; for a long one, of parts all over it.
std::string content_text(const std::string& path);

}  // namespace troupe
