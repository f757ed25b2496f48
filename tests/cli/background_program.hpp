#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "../files.hpp"

namespace troupe::testing {

/// A shell command line that runs in the background; the destructor kills it.
class background_program {
 public:
  /// Redirects its standard output and error to a file.
  background_program(const std::string& command, std::string output)
    : output_(std::move(output)), child_(::fork()) {
    if (child_ != 0)
      return;
    ::signal(SIGTERM, SIG_DFL);  // Catch2 handles it in the child, too
    ::signal(SIGINT, SIG_DFL);
    const auto file =
      ::open(output_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", ("exec " + command).c_str(), nullptr);
    ::_exit(127);
  }
  background_program(const background_program&) = delete;
  background_program& operator=(const background_program&) = delete;
  ~background_program() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
  }

  pid_t pid() const { return child_; }
  std::string output() const { return content(output_); }
  /// Waits until it has written the text, for at most a minute.
  bool writes(const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      if (output().find(text) != std::string::npos)
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  /// Sends the signal repeatedly, for at most so many seconds; returns the exit
  /// code, if the program has ended.
  std::optional<int> insist(int signal, int seconds) {
    for (int i = 0; i < seconds * 20; ++i) {
      int status = 0;
      ::kill(child_, signal);
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        return exit_code(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {};
  }
  /// The exit code, after sending a signal (0: none); 128 + the signal that
  /// ended the program. Throws the output if the program still runs after four
  /// minutes, before CTest would end the test without output.
  int end(int signal) {
    int status = 0;
    ::kill(child_, signal);
    pollfd ended{static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)), POLLIN,
                 0};
    const auto count = ended.fd < 0 ? 1 : ::poll(&ended, 1, 240'000);
    ::close(ended.fd);
    if (count == 0)
      throw std::runtime_error("runs for more than four minutes:\n" + output());
    ::waitpid(child_, &status, 0);
    child_ = -1;
    return exit_code(status);
  }

 private:
  static int exit_code(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::string output_;
  pid_t child_;
};

}  // namespace troupe::testing
