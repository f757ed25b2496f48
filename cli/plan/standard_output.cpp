#include "troupe/cli/plan/standard_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdio>

#include "troupe/base/fail.hpp"
#include "troupe/base/patient_write.hpp"

namespace troupe::cli {

reader_left::reader_left()
  : error(error_code::io, "nobody reads standard output any more") {}

void print_now(std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)
    return;
  const auto reason = errno;
  if (reason == EPIPE || (reason == 0 && has_no_reader(STDOUT_FILENO)))
    throw reader_left();
  fail(error_code::io, "standard output can't be written: {}",
       reason != 0 ? write_problem(reason) : "some of the output was lost");
}

void tell_that_reader_left() {
  spdlog::warn(
    "nobody reads the output any more; the run goes on, and ends with exit "
    "code 141");
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
