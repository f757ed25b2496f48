#include "troupe/monitors/live/stream_socket.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "troupe/schedules/error.hpp"

namespace troupe {

deadline::deadline(double seconds) {
  if (std::isfinite(seconds))
    when_ = clock::now()
            + std::chrono::duration_cast<clock::duration>(
              std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e8)));
}

int deadline::milliseconds() const {
  if (when_ == clock::time_point::max())
    return -1;
  const auto left =
    std::chrono::ceil<std::chrono::milliseconds>(when_ - clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

stream_socket::stream_socket(const endpoint& at, const deadline& until)
  : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (const auto& each : addresses_of(at))
    if (connect(each, until))
      return;
  const auto reason = errno;
  ::close(wake_);
  fail(error_code::transport,
       "nobody answers at {}: {}; does the job still run?", to_text(at),
       std::strerror(reason));
}

stream_socket::~stream_socket() {
  ::close(handle_);
  ::close(wake_);
}

bool stream_socket::connect(const socket_address& to, const deadline& until) {
  handle_ =
    ::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (::connect(handle_, to.get(), to.size) == 0)
    return true;
  int trouble = errno;
  if (trouble == EINPROGRESS) {
    socklen_t size = sizeof(trouble);
    trouble = ETIMEDOUT;
    if (wait_for(POLLOUT, until))
      ::getsockopt(handle_, SOL_SOCKET, SO_ERROR, &trouble, &size);
  }
  if (trouble == 0)
    return true;
  ::close(handle_);
  errno = trouble;
  return false;
}

/// False: the deadline has come.
bool stream_socket::wait_for(short what, const deadline& until) {
  for (;;) {
    std::array<pollfd, 2> each{{{handle_, what, 0}, {wake_, POLLIN, 0}}};
    const auto ready = ::poll(each.data(), each.size(), until.milliseconds());
    if (ready < 0 && errno == EINTR)
      continue;
    if (each[1].revents != 0)
      fail(error_code::interrupted, "interrupted");
    return ready > 0;
  }
}

stream_socket::outcome stream_socket::read(std::string& into,
                                           const deadline& until) {
  std::array<char, 64 * 1024> chunk;
  for (;;) {
    if (!wait_for(POLLIN, until))
      return outcome::late;
    const auto got = ::recv(handle_, chunk.data(), chunk.size(), 0);
    if (got > 0) {
      into.append(chunk.data(), static_cast<std::size_t>(got));
      return outcome::bytes;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
      return outcome::ended;
  }
}

void stream_socket::write(std::string_view bytes, const deadline& until) {
  while (!bytes.empty()) {
    const auto sent = ::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno != EAGAIN && errno != EINTR)
      fail(error_code::transport, "the job has ended the connection: {}",
           std::strerror(errno));
    else if (!wait_for(POLLOUT, until))
      fail(error_code::transport, "the job takes nothing");
  }
}

void stream_socket::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof(one));
}

}  // namespace troupe
