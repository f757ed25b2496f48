#include "troupe/engine/transport/stream/acceptor.hpp"

#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>
#include <optional>

#include "troupe/engine/transport/stream/listener.hpp"
#include "troupe/engine/transport/trust/authenticate.hpp"

namespace troupe {

namespace asio = boost::asio;

/// Used on the loop's thread, except for its construction.
class acceptor::impl : public std::enable_shared_from_this<impl> {
 public:
  impl(io_loop& loop, const endpoint& address, const credentials& shown,
       events then, const acceptor_options& options)
    : loop_(loop),
      trust_(make_trust(address, shown)),
      then_(std::move(then)),
      options_(options),
      listening_(std::in_place, address),
      where_(listening_->where()),
      waiting_(loop.context()),
      pause_(loop.context()) {}

  const endpoint& where() const { return where_; }

  void start() {
    waiting_.assign(::dup(listening_->handle()));
    wait();
  }

  void stop() {
    stopped_ = true;
    boost::system::error_code ignored;
    waiting_.close(ignored);
    pause_.cancel();
    listening_.reset();
    for (const auto& each : std::exchange(pending_, {}))
      if (each)
        each();
  }

 private:
  void wait() {
    waiting_.async_wait(asio::posix::descriptor_base::wait_read,
                        [self = shared_from_this()](const auto& problem) {
                          if (!problem && !self->stopped_)
                            self->accept();
                        });
  }

  void accept() {
    // Limits accepts per turn, so that the loop gets to pending connections.
    constexpr int most_at_once = 16;
    for (int i = 0; i < most_at_once; ++i) {
      const auto socket =
        ::accept4(listening_->handle(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0)
        return errno == EMFILE || errno == ENFILE ? make_room() : wait();
      begin(socket);
      if (stopped_)
        return;
    }
    wait();
  }

  /// No file descriptor is left: drops the oldest, then accepts after a moment.
  void make_room() {
    drop_oldest("out of file descriptors; raise the limit (ulimit -n)");
    pause_.expires_after(std::chrono::milliseconds(20));
    pause_.async_wait([self = shared_from_this()](const auto& problem) {
      if (!problem && !self->stopped_)
        self->wait();
    });
  }

  void begin(int socket) {
    if (pending_.size() >= options_.pending)
      drop_oldest("too many connections were authenticating at once");
    const auto found = pending_.insert(pending_.end(), nullptr);
    const auto left = std::make_shared<bool>(false);
    const std::weak_ptr<impl> weak = weak_from_this();
    const auto then = [weak, found, left](auto&& call) {
      *left = true;
      const auto self = weak.lock();
      if (!self || self->stopped_)
        return;
      self->pending_.erase(found);
      call(*self);
    };
    auto begun = begin_authentication(
      loop_, socket, link_side::server, trust_, options_.within,
      {[then](stream_pointer stream) {
         then([&](impl& self) { self.then_.arrived(std::move(stream)); });
       },
       [then](const refusal& why) {
         then([&](impl& self) { self.tell(why.reason); });
       }});
    if (!*left && !stopped_)
      *found = std::move(begun);
  }

  void drop_oldest(const std::string& why) {
    if (pending_.empty())
      return;
    const auto oldest = std::move(pending_.front());
    pending_.pop_front();
    oldest();
    tell(why);
  }

  void tell(const std::string& reason) const {
    if (then_.refused)
      then_.refused(reason);
  }

  io_loop& loop_;
  trust trust_;
  events then_;
  acceptor_options options_;
  std::optional<listener> listening_;
  endpoint where_;
  asio::posix::stream_descriptor waiting_;
  asio::steady_timer pause_;
  std::list<std::function<void()>> pending_;  // what stops each
  bool stopped_ = false;
};

acceptor::acceptor(io_loop& loop, const endpoint& address,
                   const credentials& shown, events then,
                   const acceptor_options& options)
  : loop_(loop),
    impl_(
      std::make_shared<impl>(loop, address, shown, std::move(then), options)) {
  loop_.post([impl = impl_] { impl->start(); });
}

acceptor::~acceptor() {
  if (loop_.is_own_thread())
    impl_->stop();
  else
    loop_.run([this] { impl_->stop(); });
}

const endpoint& acceptor::where() const {
  return impl_->where();
}

}  // namespace troupe
