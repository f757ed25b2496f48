#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "../expect.hpp"
#include "../run_program.hpp"

namespace troupe::testing {

/// Runs a command of the shell on a terminal of this size; returns what it
/// writes to it. What `keys` holds is typed at once.
inline program_result run_on_terminal(const std::string& command, int columns,
                                      int rows, const std::string& keys = {}) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  int terminal = -1;
  const auto child = ::forkpty(&terminal, nullptr, nullptr, &size);
  expect(child >= 0, "a terminal can be opened");
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  if (!keys.empty())
    expect(::write(terminal, keys.data(), keys.size())
             == static_cast<ssize_t>(keys.size()),
           "the keys are typed");
  program_result result;
  char bytes[4096];
  for (;;) {
    const auto count = ::read(terminal, bytes, sizeof bytes);
    if (count > 0)
      result.output.append(bytes, static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR)  // EIO: the other end is closed
      break;
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace troupe::testing
