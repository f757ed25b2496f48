#pragma once

#include <sys/types.h>

#include <cstddef>
#include <limits>
#include <string>

namespace troupe {

/// A regular file, open for reading; troupe opens all its input files here.
/// Opening never blocks, not even on a pipe. All members throw `io` with the
/// path and the system's reason. Movable; one thread at a time.
class input_file {
 public:
  explicit input_file(std::string path);
  input_file(input_file&& other) noexcept;
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;
  input_file& operator=(input_file&&) = delete;
  ~input_file();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Permission bits and size in bytes, when the file was opened.
  mode_t mode() const { return mode_; }
  std::size_t size() const { return size_; }

  /// The next bytes, at most `most`; fewer only at the file's end.
  std::string read(std::size_t most = std::numeric_limits<std::size_t>::max());

  /// Throws `io` naming the file.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  mode_t mode_ = 0;
  std::size_t size_ = 0;
};

/// The whole content of a text file, without the byte order mark that some
/// editors write. Throws `io`.
std::string read_file(const std::string& path);

}  // namespace troupe
