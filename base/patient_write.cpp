#include "troupe/base/patient_write.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>

#include "troupe/base/deadline.hpp"

namespace troupe {

namespace {

/// Waits for room to write; false, with `errno`, after `patience` seconds.
bool await_room(int descriptor, double patience) {
  const deadline until(patience);
  for (;;) {
    pollfd each{descriptor, POLLOUT, 0};
    const auto ready = ::poll(&each, 1, until.milliseconds());
    if (ready > 0)
      return true;
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready == 0)
      errno = ETIMEDOUT;
    return false;
  }
}

/// When readers are given up.
std::atomic<deadline::clock::time_point> patience_ends{
  deadline::clock::time_point::max()};

/// Waits until a stream's reader takes more; false, with `errno`, if it is
/// given up.
bool await_reader(int descriptor) {
  constexpr double slice = 0.05;
  while (!await_room(descriptor, slice))
    if (errno != ETIMEDOUT || deadline::clock::now() >= patience_ends.load())
      return false;
  return true;
}

/// Keeps other threads from printing to a stream.
class stream_lock {
 public:
  explicit stream_lock(std::FILE* stream) : stream_(stream) {
    ::flockfile(stream_);
  }
  ~stream_lock() { ::funlockfile(stream_); }
  stream_lock(const stream_lock&) = delete;
  stream_lock& operator=(const stream_lock&) = delete;

 private:
  std::FILE* stream_;
};

}  // namespace

bool print_all(std::FILE* out, std::string_view text) {
  const stream_lock whole(out);
  const auto descriptor = ::fileno(out);  // -1: in memory
  while (!text.empty()) {
    // A pipe that has room takes so much without blocking.
    const auto piece = text.substr(0, PIPE_BUF);
    text.remove_prefix(piece.size());
    if ((descriptor >= 0 && !await_reader(descriptor))
        || std::fwrite(piece.data(), 1, piece.size(), out) < piece.size()
        || std::fflush(out) != 0)
      return false;
  }
  return true;
}

void end_patience() {
  auto never = deadline::clock::time_point::max();
  patience_ends.compare_exchange_strong(never,
                                        deadline(open_patience_seconds).when());
}

int open_in_place(const char* path, double patience) {
  constexpr auto step = 20;
  const deadline until(patience);
  for (;;) {
    const auto opened = ::open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened >= 0 || errno != ENXIO)
      return opened;
    const auto left = until.milliseconds();
    if (left == 0) {
      errno = ENXIO;
      return -1;
    }
    ::poll(nullptr, 0, std::min(left, step));
  }
}

bool write_all(int descriptor, std::string_view bytes, double patience) {
  while (!bytes.empty()) {
    const auto count = ::write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EAGAIN && !await_room(descriptor, patience))
      return false;
    if (errno != EINTR && errno != EAGAIN)
      return false;
  }
  return true;
}

bool has_no_reader(int descriptor) {
  pollfd each{descriptor, POLLOUT, 0};
  return ::poll(&each, 1, 0) > 0 && (each.revents & POLLERR) != 0;
}

std::string write_problem(int reason) {
  if (reason == ENXIO)
    return "this pipe has no reader; start the reader first";
  if (reason == ETIMEDOUT)
    return "this pipe is full, and its reader is not reading";
  return std::strerror(reason);
}

}  // namespace troupe
