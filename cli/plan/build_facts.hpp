#pragma once

#include <string>

namespace troupe::cli {

/// The version alone on the first line, then what this program was built of and
/// with: commit, LibTorch, CUDA, NCCL, CAF.
std::string version_text();

/// The program's folder.
std::string program_folder();

/// The folder with troupe-config.cmake of the installation that this program
/// belongs to, for `cmake -Dtroupe_DIR`. Throws `io` if it has none.
std::string cmake_folder();

}  // namespace troupe::cli
