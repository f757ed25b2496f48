#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace troupe::testing {

struct program_result {
  int exit_code = 0;   // 128 + the signal if one ended it
  std::string output;  // stdout and stderr together
};

/// Runs a shell command line and waits for it.
inline program_result run_program(const std::string& command) {
  program_result result;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const auto count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), count);
  const auto status = ::pclose(pipe);
  result.exit_code =
    WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace troupe::testing
