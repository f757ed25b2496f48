#pragma once

#include <sys/stat.h>

#include <string>

#include "temporary_folder.hpp"

namespace troupe::testing {

/// Writes a token to a file that only its owner can read; returns its path.
inline std::string write_secret(const temporary_folder& folder,
                                const std::string& token) {
  auto path = folder.write("token", token + "\n");
  ::chmod(path.c_str(), 0600);
  return path;
}

}  // namespace troupe::testing
