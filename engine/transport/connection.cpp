#include "troupe/engine/transport/connection.hpp"

#include <utility>

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <mutex>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/transport/acknowledgements.hpp"
#include "troupe/engine/transport/frame_queues.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
using state = stream_progress::state;

/// Waits on duplicates of a stream's handles, as waiting takes ownership.
class readiness_watch {
 public:
  explicit readiness_watch(asio::io_context& context)
    : reading_(context), writing_(context) {}

  template <class Then>
  void wait(const byte_stream& stream, state need, Then then) {
    auto& descriptor = need == state::needs_read ? reading_ : writing_;
    const auto handle = stream.handle_to(need);
    if (!descriptor.is_open())
      descriptor.assign(duplicate(handle.descriptor));
    descriptor.async_wait(handle.for_reading
                            ? asio::posix::descriptor_base::wait_read
                            : asio::posix::descriptor_base::wait_write,
                          [then = std::move(then)](const auto& problem) {
                            if (!problem)
                              then();
                          });
  }
  void close() {
    boost::system::error_code ignored;
    reading_.close(ignored);
    writing_.close(ignored);
  }

 private:
  static int duplicate(int descriptor) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
      fail(error_code::transport, "can't wait for a connection: {}",
           std::strerror(errno));
    return copy;
  }

  asio::posix::stream_descriptor reading_, writing_;
};

class framed_connection final : public connection {
 public:
  framed_connection(io_loop& loop, stream_pointer stream)
    : loop_(loop),
      stream_(std::move(stream)),
      in_(events_),
      watch_(loop.context()) {}

  void start(connection_events events) override {
    if (!loop_.is_own_thread())
      return loop_.post(
        [self = shared(), events = std::move(events)]() mutable {
          self->start(std::move(events));
        });
    events_ = std::move(events);
    if (!std::exchange(started_, true))
      read();
  }

  void send(frame message) override {
    {
      const std::scoped_lock lock(mutex_);
      if (ending_)
        return;
      queue_.add(std::move(message));
      if (writing_)
        return;
      writing_ = true;
    }
    if (stream_->is_full_duplex() || loop_.is_own_thread())
      write();
    else
      loop_.post([self = shared()] { self->write(); });
  }

  void close() override {
    send({frame_type::goodbye, {}, {}});
    const std::scoped_lock lock(mutex_);
    ending_ = true;
    if (!writing_)
      loop_.post([self = shared()] { self->leave(); });
  }

  void abort() override {
    loop_.post([self = shared()] { self->break_off(); });
  }

  bool is_closed() const override { return closed_; }
  std::chrono::milliseconds unacknowledged() override {
    tcp_info info{};
    socklen_t size = sizeof(info);
    const auto socket = stream_->tcp_socket();
    if (socket < 0
        || ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
      return {};
    return acknowledgements_.overdue(
      {info.tcpi_unacked, info.tcpi_probes,
       std::chrono::milliseconds(info.tcpi_last_ack_recv)},
      std::chrono::steady_clock::now());
  }
  std::int64_t bytes_sent() const override { return sent_; }
  std::int64_t bytes_received() const override { return received_; }
  std::int64_t waiting() const override {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::int64_t>(queue_.size());
  }

 private:
  std::shared_ptr<framed_connection> shared() {
    return std::static_pointer_cast<framed_connection>(shared_from_this());
  }

  /// Called on the loop's thread.
  void read() {
    if (read_on())
      loop_.poll([self = shared()] { return self->read_on(); });
  }

  /// Reads what is available. Returns whether to read again at once: there is
  /// more, or something has just arrived. Otherwise it waits.
  bool read_on() {
    if (closed_)
      return false;
    try {
      const auto before = received_.load();
      const auto need = in_.read_from(*stream_, received_);
      if (write_needs_read_)
        write_on();
      if (need == state::ended)
        lose(in_.said_goodbye() ? "" : "the other side closed the connection");
      else if (need == state::moved
               || (need == state::needs_read && is_awake(received_ > before)))
        return true;
      else
        watch_.wait(*stream_, need, [self = shared()] { self->read(); });
    } catch (...) {
      lose(thrown_text());
    }
    return false;
  }

  /// Whether to poll instead of waiting: some bytes have arrived just now.
  bool is_awake(bool has_received) {
    if (loop_.spin().count() == 0)
      return false;
    const auto now = std::chrono::steady_clock::now();
    if (has_received)
      last_received_ = now;
    return now - last_received_ < loop_.spin();
  }

  /// Called by the thread that has set `writing_`.
  void write() {
    try {
      for (;;) {
        std::vector<iovec> parts;
        {
          const std::scoped_lock lock(mutex_);
          if (broken_)
            queue_.clear();
          if (queue_.empty()) {
            writing_ = false;
            if (ending_)
              loop_.post([self = shared()] { self->leave(); });
            return;
          }
          parts = queue_.next();
        }
        const auto progress = stream_->write(parts);
        if (progress.what != state::moved)
          return wait_to_write(progress.what);
        sent_ += static_cast<std::int64_t>(progress.bytes);
        std::vector<tensor_list> written;  // freed without the lock
        const std::scoped_lock lock(mutex_);
        written = queue_.advance(progress.bytes);
      }
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        ending_ = true;
        writing_ = false;
      }
      loop_.post([self = shared(), text = thrown_text()] { self->lose(text); });
    }
  }

  /// The last try before a wait runs on the loop's thread, as reads do: a read
  /// in between could consume what the write waits for. A read before the wait
  /// is registered could, too; then the write tries again.
  void wait_to_write(state need) {
    if (!loop_.is_own_thread())
      return loop_.post([self = shared()] { self->write(); });
    if (closed_) {
      const std::scoped_lock lock(mutex_);
      return queue_.clear();
    }
    write_waits_ = true;
    write_needs_read_ = need == state::needs_read;
    watch_.wait(*stream_, need, [self = shared()] { self->write_on(); });
  }

  void write_on() {
    if (std::exchange(write_waits_, false))
      write();
  }

  /// Called when everything is written; what still arrives is ignored.
  void leave() {
    events_ = {};
    finish();
  }

  void finish() {
    if (closed_)
      return;
    try {
      const auto progress = stream_->finish_writing();
      if (progress.what != state::moved)
        watch_.wait(*stream_, progress.what,
                    [self = shared()] { self->finish(); });
      else if (!std::exchange(started_, true))
        read();  // until the other side ends, too
    } catch (...) {
      break_off();  // nobody is left to read
    }
  }

  void lose(const std::string& reason) {
    if (closed_)
      return;
    break_off();
    if (auto lost = std::exchange(events_.lost, {}))
      lost(reason);
  }

  void break_off() {
    closed_ = true;
    // Deferred: one of the events may be the caller.
    loop_.post([self = shared()] { self->events_ = {}; });
    watch_.close();
    stream_->close();
    const std::scoped_lock lock(mutex_);
    ending_ = broken_ = true;
    if (!writing_ || write_waits_)
      queue_.clear();
  }

  io_loop& loop_;
  stream_pointer stream_;
  connection_events events_;
  incoming_frames in_;
  readiness_watch watch_;
  // Used by the loop's thread only.
  bool started_ = false;
  bool write_waits_ = false, write_needs_read_ = false;
  std::atomic<bool> closed_ = false;
  std::chrono::steady_clock::time_point last_received_{};
  acknowledgements acknowledgements_;
  std::atomic<std::int64_t> sent_ = 0, received_ = 0;

  mutable std::mutex mutex_;
  outgoing_frames queue_;
  bool writing_ = false;  // a thread writes, or waits to
  bool ending_ = false;   // no more frames are accepted
  bool broken_ = false;   // nothing more can be written
};

}  // namespace

connection_pointer connection::make(io_loop& loop, stream_pointer stream) {
  return std::make_shared<framed_connection>(loop, std::move(stream));
}

}  // namespace troupe
