#include "troupe/engine/transport/stream/acceptor.hpp"

#include <utility>

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <list>
#include <optional>

#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

namespace troupe {

namespace asio = boost::asio;

class acceptor::impl : public std::enable_shared_from_this<impl> {
 public:
  impl(const asio::any_io_executor& executor, const endpoint& address,
       const credentials& own, events handlers, const acceptor_options& options)
    : trust_(make_trust(address, own)),
      handlers_(std::move(handlers)),
      options_(options),
      listening_(std::in_place, address),
      waiting_(executor, listening_->duplicate()),
      pause_(executor) {}

  const endpoint& where() const { return listening_->where(); }

  void start() {
    spawn(waiting_.get_executor(),
          [self = shared_from_this()] { return self->accept(); });
  }

  void stop() {
    stopped_ = true;
    boost::system::error_code ignored;
    waiting_.close(ignored);
    pause_.cancel();
    listening_.reset();
    for (const auto& each : std::exchange(pending_, {}))
      each->close_gently();
  }

 private:
  static constexpr auto in_tuple = asio::as_tuple(asio::use_awaitable);

  asio::awaitable<void> accept() {
    // Limits accepts per turn, so that the loop gets to pending connections.
    constexpr int most_at_once = 16;
    while (!stopped_) {
      const auto [problem] = co_await waiting_.async_wait(
        asio::posix::descriptor_base::wait_read, in_tuple);
      if (problem)
        co_return;
      for (int i = 0; i < most_at_once && !stopped_; ++i) {
        const auto socket =
          ::accept4(listening_->handle(), nullptr, nullptr, SOCK_CLOEXEC);
        if (socket >= 0) {
          begin(socket);
          continue;
        }
        if (errno == EMFILE || errno == ENFILE) {
          drop_oldest("out of file descriptors; raise the limit (ulimit -n)");
          pause_.expires_after(std::chrono::milliseconds(20));
          co_await pause_.async_wait(in_tuple);
        }
        break;
      }
    }
  }

  /// An exception ends this connection alone.
  void begin(int socket) try {
    const auto stream = std::make_shared<awaited_stream>(
      waiting_.get_executor(), stream_over(socket, trust_, link_side::server));
    if (pending_.size() >= options_.pending)
      drop_oldest("too many connections were authenticating at once");
    pending_.push_back(stream);
    spawn(waiting_.get_executor(),
          [self = shared_from_this(), stream] { return self->admit(stream); });
  } catch (...) {
    throw_from(waiting_.get_executor());
  }

  asio::awaitable<void> admit(std::shared_ptr<awaited_stream> stream) {
    const auto refused = co_await authenticate(*stream, link_side::server,
                                               trust_, options_.time_limit);
    if (stopped_ || pending_.remove(stream) == 0)
      co_return;
    if (refused)
      report(refused->reason);
    else
      handlers_.arrived(stream->take());
  }

  void drop_oldest(const std::string& reason) {
    if (pending_.empty())
      return;
    pending_.front()->close_gently();
    pending_.pop_front();
    report(reason);
  }

  void report(const std::string& refusal) const {
    if (handlers_.refused)
      handlers_.refused(refusal);
  }

  trust trust_;
  events handlers_;
  acceptor_options options_;
  std::optional<listener> listening_;  // none once it has stopped
  asio::posix::stream_descriptor waiting_;
  asio::steady_timer pause_;
  std::list<std::shared_ptr<awaited_stream>> pending_;
  bool stopped_ = false;
};

acceptor::acceptor(const asio::any_io_executor& executor,
                   const endpoint& address, const credentials& own,
                   events handlers, const acceptor_options& options)
  : impl_(std::make_shared<impl>(executor, address, own, std::move(handlers),
                                 options)) {
  impl_->start();
}

acceptor::~acceptor() {
  impl_->stop();
}

const endpoint& acceptor::where() const {
  return impl_->where();
}

}  // namespace troupe
