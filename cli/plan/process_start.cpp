#include "troupe/cli/plan/process_start.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace troupe::cli {

void prepare_process() {
  for (int each = STDIN_FILENO; each <= STDERR_FILENO; ++each)
    if (::fcntl(each, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", O_RDWR);  // takes the lowest free number: this one
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace troupe::cli
