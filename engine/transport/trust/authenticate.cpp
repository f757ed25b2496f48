#include "troupe/engine/transport/trust/authenticate.hpp"

#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/transport/introduction.hpp"
#include "troupe/engine/transport/stream/tls_stream.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
using state = stream_progress::state;

/// For a unix socket without a token: allows only the same user or root.
void require_own_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return;  // TCP, insecure
  if (peer.uid != 0 && peer.uid != ::geteuid())
    fail(error_code::transport,
         "the other side is user {}'s, this one user {}'s: run both as one "
         "user, or give both a token",
         peer.uid, ::geteuid());
}

bool is_unix(int socket) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_UNIX;
}

class authentication : public std::enable_shared_from_this<authentication> {
 public:
  authentication(io_loop& loop, int socket, link_side own, const trust& trusted,
                 authentication_outcome then)
    : own_(own),
      trust_(trusted),
      then_(std::move(then)),
      introduction_(own, trusted),
      timer_(loop.context()),
      waiting_(loop.context()) {
    stream_ = trusted.tls ? tls_stream(socket, trusted.tls, own)
                          : socket_stream(socket);
    waiting_.assign(socket);
    socket_ = socket;
  }
  authentication(const authentication&) = delete;
  authentication& operator=(const authentication&) = delete;
  ~authentication() { leave(); }

  void start(std::chrono::milliseconds within) {
    timer_.expires_after(within);
    timer_.async_wait([weak = weak_from_this(), within](const auto& problem) {
      const auto self = weak.lock();
      if (!problem && self)
        self->give_up(
          fmt::format("the other side did not authenticate within {} s",
                      static_cast<double>(within.count()) / 1000),
          false);
    });
    advance();
  }

  void stop() {
    then_ = {};
    leave();
  }

 private:
  void advance() {
    if (!stream_)
      return;
    try {
      if (trust_.kind == trust_kind::none && is_unix(socket_))
        require_own_user(socket_);
      const auto need = introduction_.advance(*stream_);
      if (need == state::ended)
        return give_up(introduction_.at_end());
      if (need == state::moved)
        return succeed();
      wait(need);
    } catch (...) {
      heard_ = heard_ || trust_.tls != nullptr;
      give_up(thrown_text());
    }
  }

  void wait(state need) {
    waiting_.async_wait(need == state::needs_read
                          ? asio::posix::descriptor_base::wait_read
                          : asio::posix::descriptor_base::wait_write,
                        [self = shared_from_this(), this](const auto& problem) {
                          if (!problem)
                            advance();
                        });
  }

  void succeed() {
    const auto self = shared_from_this();
    let_go();
    const auto then = std::exchange(then_, {});
    if (then.done)
      then.done(std::move(stream_));
  }

  void give_up(const std::string& reason) {
    give_up(reason, heard_ || introduction_.answered());
  }
  void give_up(const std::string& reason, bool answered) {
    const auto self = shared_from_this();
    const auto then = std::exchange(then_, {});
    leave();
    if (then.failed)
      then.failed({reason, answered});
  }

  /// Releases the socket to the stream.
  void let_go() {
    timer_.cancel();
    if (waiting_.is_open())
      waiting_.release();
  }

  void leave() {
    let_go();
    if (!stream_)
      return;
    read_off(socket_);
    stream_.reset();
  }

  link_side own_;
  trust trust_;
  authentication_outcome then_;
  introduction introduction_;
  asio::steady_timer timer_;
  asio::posix::stream_descriptor waiting_;  // borrows the stream's socket
  stream_pointer stream_;
  int socket_ = -1;
  bool heard_ = false;
};

}  // namespace

std::function<void()> begin_authentication(io_loop& loop, int socket,
                                           link_side own, const trust& trusted,
                                           std::chrono::milliseconds within,
                                           authentication_outcome then) {
  auto made = std::make_shared<authentication>(loop, socket, own, trusted,
                                               std::move(then));
  made->start(within);
  return [made = std::move(made)] { made->stop(); };
}

}  // namespace troupe
