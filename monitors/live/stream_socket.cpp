#include "troupe/monitors/live/stream_socket.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/introduction.hpp"
#include "troupe/engine/transport/stream/tls_stream.hpp"
#include "troupe/monitors/live/live_trust.hpp"

namespace troupe {

using state = stream_progress::state;

stream_socket::stream_socket(const endpoint& address, const deadline& until,
                             const trust& trusted)
  : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!connect_any(address, until))
    fail(error_code::transport,
         "no answer at {}: {}; is the job still running?", to_text(address),
         std::strerror(errno));
  stream_ = trusted.tls ? tls_stream(handle_, trusted.tls, link_side::client)
                        : socket_stream(handle_);
  if (introduces(trusted))
    introduce(address, trusted, until);
}

bool stream_socket::connect_any(const endpoint& address,
                                const deadline& until) {
  return std::ranges::any_of(addresses_of(address), [&](const auto& each) {
    return connect(each, until);
  });
}

void stream_socket::introduce(const endpoint& address, const trust& trusted,
                              const deadline& until) {
  introduction shown(link_side::client, trusted);
  std::string why = "it does not answer";
  try {
    for (;;) {
      const auto need = shown.advance(*stream_);
      if (need == state::moved)
        return;
      if (need == state::ended)
        why = shown.at_end();
      if (need == state::ended || !wait_for(need, until))
        break;
    }
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;
    why = reason.what();
  }
  fail(error_code::transport,
       "{}: this client and the job do not have the same token: {}",
       to_text(address), why);
}

bool stream_socket::connect(const socket_address& target,
                            const deadline& until) {
  handle_ =
    ::socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (::connect(handle_, target.get(), target.size) == 0)
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

void stream_socket::check_interrupt() const {
  pollfd wake{wake_.get(), POLLIN, 0};
  if (::poll(&wake, 1, 0) > 0)
    fail(error_code::interrupted, "interrupted");
}

/// False: the deadline has come.
bool stream_socket::wait_for(short what, const deadline& until) {
  for (;;) {
    std::array<pollfd, 2> each{{{handle_, what, 0}, {wake_.get(), POLLIN, 0}}};
    const auto ready = ::poll(each.data(), each.size(), until.milliseconds());
    if (ready < 0 && errno == EINTR)
      continue;
    if (each[1].revents != 0)
      fail(error_code::interrupted, "interrupted");
    return ready > 0;
  }
}

bool stream_socket::wait_for(state need, const deadline& until) {
  return wait_for(need == state::needs_read ? POLLIN : POLLOUT, until);
}

stream_socket::outcome stream_socket::read(std::string& target,
                                           const deadline& until) {
  std::array<char, 64 * 1024> chunk;
  check_interrupt();
  try {
    for (;;) {
      const auto progress = stream_->read(chunk.data(), chunk.size());
      if (progress.what == state::ended)
        return outcome::ended;
      if (progress.what == state::moved) {
        target.append(chunk.data(), progress.bytes);
        return outcome::bytes;
      }
      if (!wait_for(progress.what, until))
        return outcome::late;
    }
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;
    return outcome::ended;  // a connection that is cut has ended, too
  }
}

void stream_socket::write(std::string_view bytes, const deadline& until) {
  while (!bytes.empty()) {
    const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    const auto progress = stream_->write({&part, 1});
    if (progress.what == state::moved)
      bytes.remove_prefix(progress.bytes);
    else if (progress.what == state::ended)
      fail(error_code::transport, "the job closed the connection");
    else if (!wait_for(progress.what, until))
      fail(error_code::transport, "the job does not read");
  }
}

void stream_socket::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

}  // namespace troupe
