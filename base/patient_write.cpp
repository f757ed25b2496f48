#include "troupe/base/patient_write.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

clock::time_point after(double seconds) {
  return clock::now()
         + std::chrono::duration_cast<clock::duration>(
           std::chrono::duration<double>(seconds));
}

int milliseconds_until(clock::time_point when) {
  const auto left =
    std::chrono::ceil<std::chrono::milliseconds>(when - clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

/// Waits for room to write; false, with `errno`, after `patience` seconds.
bool await_room(int descriptor, double patience) {
  const auto until = after(patience);
  for (;;) {
    pollfd each{descriptor, POLLOUT, 0};
    const auto ready = ::poll(&each, 1, milliseconds_until(until));
    if (ready > 0)
      return true;
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready == 0)
      errno = ETIMEDOUT;
    return false;
  }
}

/// When readers are given up, since the clock's beginning.
std::atomic<clock::duration> patience_ends{clock::duration::max()};

/// Waits until a stream's reader takes more; false, with `errno`, if it is
/// given up.
bool await_reader(int descriptor) {
  constexpr double slice = 0.05;
  while (!await_room(descriptor, slice))
    if (errno != ETIMEDOUT
        || clock::now().time_since_epoch() >= patience_ends.load())
      return false;
  return true;
}

}  // namespace

bool print_all(std::FILE* out, std::string_view text) {
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
  auto never = clock::duration::max();
  patience_ends.compare_exchange_strong(
    never, after(open_patience_seconds).time_since_epoch());
}

int open_in_place(const char* path, double patience) {
  constexpr auto step = 20;
  const auto until = after(patience);
  for (;;) {
    const auto opened = ::open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened >= 0 || errno != ENXIO)
      return opened;
    const auto left = milliseconds_until(until);
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

std::string write_problem(int reason) {
  if (reason == ENXIO)
    return "nobody reads this pipe; start its reader first";
  if (reason == ETIMEDOUT)
    return "the reader of this pipe takes nothing";
  return std::strerror(reason);
}

}  // namespace troupe
