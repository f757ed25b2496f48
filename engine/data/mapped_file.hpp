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

  /// As `input_file`; a file that changed would give garbage or a bus error.
  void require_unchanged() const;

 private:
  input_file file_;
  const std::byte* data_ = nullptr;
};

/// A file's size, and a hash of it; for a long one, of parts all over it.
std::string content_text(const std::string& path);

}  // namespace troupe
