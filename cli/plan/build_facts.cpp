#include "troupe/cli/plan/build_facts.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe_build.hpp"
#include "troupe_commit.hpp"
#include "troupe_version.hpp"

namespace troupe::cli {

std::string version_text() {
  std::string text = TROUPE_VERSION;
  for (const auto& [name, version] : {std::pair{"commit", TROUPE_COMMIT},
                                      {"LibTorch", TROUPE_BUILT_WITH_LIBTORCH},
                                      {"CUDA", TROUPE_BUILT_WITH_CUDA},
                                      {"NCCL", TROUPE_BUILT_WITH_NCCL},
                                      {"CAF", TROUPE_BUILT_WITH_CAF}})
    text +=
      fmt::format("\n{:<11}{}", name, *version == '\0' ? "none" : version);
  return text;
}

std::string program_folder() {
  std::error_code trouble;
  return std::filesystem::read_symlink("/proc/self/exe", trouble)
    .parent_path()
    .string();
}

std::string cmake_folder() {
  const auto folder =
    (std::filesystem::path(program_folder()) / "../lib/cmake/troupe")
      .lexically_normal();
  std::error_code trouble;
  if (!std::filesystem::exists(folder / "troupe-config.cmake", trouble))
    fail(error_code::io,
         "{} is missing: this installation has no files for development; "
         "install troupe-dev, or run cmake --install on a build",
         printable((folder / "troupe-config.cmake").string(), 4096));
  return folder.string();
}

}  // namespace troupe::cli
