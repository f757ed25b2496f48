#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

namespace troupe::testing {

/// A pipe whose reader reads nothing.
class stalled_pipe {
 public:
  explicit stalled_pipe(const std::string& path) : path_(path) {
    ::mkfifo(path.c_str(), 0600);
    handle_ = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  }
  stalled_pipe(const stalled_pipe&) = delete;
  stalled_pipe& operator=(const stalled_pipe&) = delete;
  ~stalled_pipe() { ::close(handle_); }

  const std::string& path() const { return path_; }
  /// Waits until writers block, for at most a minute.
  bool fills() const {
    constexpr int nearly_full = 60'000;
    constexpr int long_enough = 50;  // a writer on a busy machine pauses, too
    for (int i = 0, before = 0, equal = 0; i < 6000; ++i) {
      int bytes = 0;
      const bool full =
        ::ioctl(handle_, FIONREAD, &bytes) == 0 && bytes >= nearly_full;
      equal = full && bytes == before ? equal + 1 : 0;
      if (equal == long_enough)
        return true;
      before = bytes;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  std::string path_;
  int handle_;
};

}  // namespace troupe::testing
