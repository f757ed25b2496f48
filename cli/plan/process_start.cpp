#include "troupe/cli/plan/process_start.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <stdexcept>
#include <string_view>

namespace troupe::cli {

namespace {

error_reporter report_uncaught = nullptr;  // set before any thread starts

int throw_again() {
  if (const auto uncaught = std::current_exception())
    std::rethrow_exception(uncaught);
  throw std::logic_error("the process was ended by its own code");
}

/// The reporter throws if there is no memory for its text.
[[noreturn]] void end_uncaught() {
  static std::atomic_flag reported;
  while (reported.test_and_set())
    ::pause();  // another thread ends the process
  try {
    report_uncaught(throw_again);
  } catch (...) {
    constexpr std::string_view text = "troupe: error: out of memory\n";
    [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, text.data(), text.size());
  }
  ::_exit(1);
}

}  // namespace

void prepare_process(error_reporter report) {
  // `open` takes the lowest free number: the closed one.
  for (int each = STDIN_FILENO; each <= STDERR_FILENO; ++each)
    if (::fcntl(each, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", each == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  report_uncaught = report;
  std::set_terminate(end_uncaught);
}

void drop_closed_output() {
  const auto mode = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) != O_RDONLY)
    return;
  const auto null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null_device, STDOUT_FILENO);
  ::close(null_device);
}

}  // namespace troupe::cli
