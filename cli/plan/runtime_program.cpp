#include "troupe/cli/plan/runtime_program.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "troupe/base/error.hpp"
#include "troupe/cli/plan/process_limits.hpp"

namespace troupe::cli {

void become_runtime(char** argv) {
  require_room_for_runtime();
  std::error_code trouble;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", trouble);
  const auto program = self.parent_path() / "troupe-runtime";
  ::execv(program.c_str(), argv);
  const auto reason = errno;
  if (reason == ENOENT)
    fail(error_code::io,
         "{} is missing: this command needs troupe's training program; build "
         "or install the complete project",
         program.string());
  fail(error_code::io, "{} can't be started: {}", program.string(),
       std::strerror(reason));
}

}  // namespace troupe::cli
