#include "troupe/engine/transport/connection.hpp"

#include <utility>

#include <atomic>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstring>
#include <deque>
#include <mutex>

#include <unistd.h>

#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
using state = stream_progress::state;

/// A frame on its way out.
struct outgoing {
  outgoing(frame what) : start(frame_start(what)), kept(std::move(what)) {
    parts.push_back({start.data(), start.size()});
    for (const auto& tensor : kept.tensors)
      if (tensor.defined() && tensor.nbytes() > 0)
        parts.push_back({tensor.data_ptr(), tensor.nbytes()});
  }
  outgoing(const outgoing&) = delete;
  outgoing& operator=(const outgoing&) = delete;

  std::string start;
  frame kept;
  std::vector<iovec> parts;
  std::size_t done = 0;  // parts that are written

  /// What is left after so many more bytes; returns those beyond its end.
  std::size_t advance(std::size_t bytes) {
    while (bytes > 0 && done < parts.size()) {
      auto& part = parts[done];
      const auto taken = std::min(bytes, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + taken;
      part.iov_len -= taken;
      bytes -= taken;
      if (part.iov_len == 0)
        ++done;
    }
    return bytes;
  }
};

/// Frames that wait to be written, oldest first.
class outgoing_queue {
 public:
  void add(frame what) { frames_.emplace_back(std::move(what)); }
  bool empty() const { return frames_.empty(); }
  std::size_t size() const { return frames_.size(); }
  void clear() { frames_.clear(); }

  /// The next bytes; stay where they are while frames are added.
  std::vector<iovec> next() const {
    constexpr std::size_t most_parts = 64;
    std::vector<iovec> parts;
    for (const auto& frame : frames_)
      for (auto i = frame.done; i < frame.parts.size(); ++i)
        if (parts.size() < most_parts)
          parts.push_back(frame.parts[i]);
    return parts;
  }

  /// Returns the frames that are through, to be freed without a lock.
  std::vector<tensor_list> advance(std::size_t bytes) {
    std::vector<tensor_list> through;
    while (!frames_.empty()) {
      auto& first = frames_.front();
      bytes = first.advance(bytes);
      if (first.done < first.parts.size())
        break;
      through.push_back(std::move(first.kept.tensors));
      frames_.pop_front();
    }
    return through;
  }

 private:
  std::deque<outgoing> frames_;
};

/// Puts frames together from what is read.
class incoming {
 public:
  incoming(const frame_limits& limits, const connection_events& events)
    : limits_(limits), events_(events) {}

  bool said_goodbye() const { return said_goodbye_; }

  /// Reads until nothing more is there; `bytes` counts what came.
  stream_progress::state take_from(byte_stream& stream,
                                   std::atomic<std::int64_t>& bytes) {
    for (;;) {
      const bool direct = body_ < parts_.size();
      const auto into = direct ? parts_[body_] : free_space();
      const auto progress = stream.read(into.iov_base, into.iov_len);
      if (progress.what != state::moved)
        return progress.what;
      bytes += static_cast<std::int64_t>(progress.bytes);
      if (direct)
        fill(progress.bytes);
      else
        end_ += progress.bytes;
      while (step()) {
      }
    }
  }

 private:
  static constexpr std::size_t staging_bytes = 16 * 1024;

  std::size_t filled() const { return end_ - begin_; }
  const char* staged() const { return staged_.data() + begin_; }

  /// After what is staged; at least a byte.
  iovec free_space() {
    if (begin_ > 0) {
      std::memmove(staged_.data(), staged(), filled());
      end_ = filled();
      begin_ = 0;
    }
    if (end_ == staged_.size())
      staged_.resize(staged_.size() * 2);
    else if (end_ == 0 && staged_.size() > staging_bytes)
      staged_ = std::string(staging_bytes, 0);
    return {staged_.data() + end_, staged_.size() - end_};
  }

  /// Takes one part of a frame out of what is staged; false: more is needed.
  bool step() {
    if (!header_) {
      if (filled() < frame_header::bytes)
        return false;
      header_ = read_frame_header({staged(), frame_header::bytes}, limits_);
      begin_ += frame_header::bytes;
    }
    if (!has_head_) {
      if (filled() < header_->head_bytes)
        return false;
      begin_body();
    }
    while (body_ < parts_.size() && filled() > 0) {
      const auto taken = std::min(filled(), parts_[body_].iov_len);
      std::memcpy(parts_[body_].iov_base, staged(), taken);
      begin_ += taken;
      fill(taken);
    }
    if (body_ < parts_.size())
      return false;
    finish();
    return filled() > 0;
  }

  void begin_body() {
    auto head = read_frame_head(*header_, {staged(), header_->head_bytes});
    if (events_.admit)
      events_.admit(header_->type, head);
    begin_ += header_->head_bytes;
    has_head_ = true;
    current_ = {header_->type, std::move(head.head), allocate(head.tensors)};
    for (const auto& tensor : current_.tensors)
      if (tensor.defined() && tensor.nbytes() > 0)
        parts_.push_back({tensor.data_ptr(), tensor.nbytes()});
  }

  void fill(std::size_t bytes) {
    auto& part = parts_[body_];
    part.iov_base = static_cast<char*>(part.iov_base) + bytes;
    part.iov_len -= bytes;
    if (part.iov_len == 0)
      ++body_;
  }

  void finish() {
    header_.reset();
    has_head_ = false;
    parts_.clear();
    body_ = 0;
    const auto whole = std::exchange(current_, {});
    if (whole.type == frame_type::goodbye)
      said_goodbye_ = true;
    else if (events_.arrived)
      events_.arrived(whole);
  }

  frame_limits limits_;
  const connection_events& events_;
  std::string staged_ = std::string(staging_bytes, 0);
  std::size_t begin_ = 0, end_ = 0;  // of what is staged
  std::optional<frame_header> header_;
  bool has_head_ = false;
  bool said_goodbye_ = false;
  frame current_;
  std::vector<iovec> parts_;
  std::size_t body_ = 0;
};

/// Waits at a stream's handles; its own copies, as waiting takes ownership.
class waiting_room {
 public:
  explicit waiting_room(asio::io_context& context)
    : reading_(context), writing_(context) {}

  template <class Then>
  void wait(const byte_stream& stream, state need, Then then) {
    auto& at = need == state::needs_read ? reading_ : writing_;
    const auto handle = stream.handle_to(need);
    if (!at.is_open())
      at.assign(::dup(handle.descriptor));
    at.async_wait(handle.for_reading ? asio::posix::descriptor_base::wait_read
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
  asio::posix::stream_descriptor reading_, writing_;
};

class framed_connection final : public connection {
 public:
  framed_connection(io_loop& loop, stream_pointer stream,
                    const frame_limits& limits)
    : loop_(loop),
      stream_(std::move(stream)),
      in_(limits, events_),
      room_(loop.context()) {}

  void start(connection_events events) override {
    loop_.post([self = shared(), events = std::move(events)]() mutable {
      self->events_ = std::move(events);
      self->started_ = true;
      self->read();
    });
  }

  void send(frame what) override {
    {
      const std::scoped_lock lock(mutex_);
      if (ending_)
        return;
      queue_.add(std::move(what));
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

  /// On the loop's thread.
  void read() {
    if (closed_)
      return;
    try {
      const auto need = in_.take_from(*stream_, received_);
      if (need == state::ended)
        return lose(
          in_.said_goodbye() ? "" : "the other side closed the connection");
      room_.wait(*stream_, need, [self = shared()] { self->read(); });
    } catch (const std::exception& reason) {
      lose(reason.what());
    }
  }

  /// By whoever set `writing_`.
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
          return loop_.post([self = shared(), need = progress.what] {
            self->wait_to_write(need);
          });
        sent_ += static_cast<std::int64_t>(progress.bytes);
        std::vector<tensor_list> through;
        const std::scoped_lock lock(mutex_);
        through = queue_.advance(progress.bytes);
      }
    } catch (const std::exception& reason) {
      loop_.post([self = shared(), text = std::string(reason.what())] {
        self->lose(text);
      });
    }
  }

  void wait_to_write(state need) {
    if (!closed_)
      room_.wait(*stream_, need, [self = shared()] { self->write(); });
  }

  /// All is written and no more will be; what still comes is not heard.
  void leave() {
    events_ = {};
    if (closed_)
      return;
    stream_->finish_writing();
    if (!std::exchange(started_, true))
      read();
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
    room_.close();
    stream_->close();
    const std::scoped_lock lock(mutex_);
    ending_ = broken_ = true;
    if (!writing_)
      queue_.clear();
  }

  io_loop& loop_;
  stream_pointer stream_;
  connection_events events_;
  incoming in_;
  waiting_room room_;
  bool started_ = false;  // of the loop's thread alone
  std::atomic<bool> closed_ = false;
  std::atomic<std::int64_t> sent_ = 0, received_ = 0;

  mutable std::mutex mutex_;
  outgoing_queue queue_;
  bool writing_ = false;  // somebody writes, or waits to
  bool ending_ = false;   // nothing more is taken
  bool broken_ = false;   // nothing more can be written
};

}  // namespace

connection_pointer connection::make(io_loop& loop, stream_pointer stream,
                                    const frame_limits& limits) {
  return std::make_shared<framed_connection>(loop, std::move(stream), limits);
}

}  // namespace troupe
