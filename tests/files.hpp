#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace troupe::testing {

/// The bytes of a file; none if it can't be read.
inline std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file's permissions, as in chmod; 0 if there is no file.
inline unsigned mode_of(const std::string& path) {
  struct stat status {};
  ::lstat(path.c_str(), &status);
  return status.st_mode & 0777U;
}

}  // namespace troupe::testing
