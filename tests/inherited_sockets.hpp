#pragma once

#include <fcntl.h>
#include <sys/socket.h>

namespace troupe::testing {

/// How many of this process's listening sockets its child programs would
/// inherit.
inline int inherited_listeners() {
  int count = 0;
  for (int handle = 3; handle < 1024; ++handle) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (::getsockopt(handle, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0
        && listens == 1 && (::fcntl(handle, F_GETFD) & FD_CLOEXEC) == 0)
      ++count;
  }
  return count;
}

}  // namespace troupe::testing
