#pragma once

#include <sys/types.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// A regular file, open for reading; troupe opens all its input files here.
/// Opening never blocks, not even on a pipe. All members throw `io` with the
/// path and the system's reason. Movable; one thread at a time, but any number
/// may call the const members.
class input_file {
 public:
  explicit input_file(std::string path);

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_.get(); }
  /// Permission bits and size in bytes, when the file was opened.
  mode_t mode() const { return mode_; }
  std::size_t size() const { return size_; }

  /// The next bytes, at most `most`; fewer only at the file's end.
  std::string read(std::size_t most = std::numeric_limits<std::size_t>::max());

  /// Copies bytes from `first` on, whatever `read` has read, and keeps none of
  /// the file's pages in this process's memory, as a map would. Also throws if
  /// the file ends before.
  void copy(std::size_t first, std::span<std::byte> out) const;
  /// Throws if the file was deleted, replaced or shortened since it was opened.
  void require_unchanged() const;

  /// Throws `io` naming the file.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string path_;
  owned_descriptor descriptor_;
  mode_t mode_ = 0;
  std::size_t size_ = 0;
};

/// The whole content of a text file, without the byte order mark that some
/// editors write. Throws `io`.
std::string read_file(const std::string& path);

}  // namespace troupe
