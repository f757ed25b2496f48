#include "troupe/engine/transport/stream/shared_stream.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/stream/byte_ring.hpp"
#include "troupe/engine/transport/stream/shared_memory.hpp"

namespace troupe {

namespace {

using state = stream_progress::state;

/// An epoll descriptor to wait on: for a doorbell, and the end of the socket.
class waiting_place {
 public:
  explicit waiting_place(int socket) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    watch(socket);
  }
  void add(int doorbell) {
    doorbell_ = doorbell;
    watch(doorbell);
  }
  int get() const { return epoll_.get(); }
  void ring() const { ring(doorbell_); }
  static void ring(int doorbell) {
    const std::uint64_t one = 1;  // fails if the doorbell is full, so it rings
    [[maybe_unused]] const auto size = ::write(doorbell, &one, sizeof(one));
  }
  void silence() const {
    std::uint64_t count = 0;  // fails if it is silent already
    [[maybe_unused]] const auto size = ::read(doorbell_, &count, sizeof(count));
  }

 private:
  void watch(int descriptor) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
      fail(error_code::transport, "can't wait for shared memory: {}",
           std::strerror(errno));
  }

  owned_descriptor epoll_;
  int doorbell_ = -1;
};

class shared_bytes final : public byte_stream {
 public:
  shared_bytes(stream_pointer socket, link_side side, std::size_t ring_bytes)
    : socket_stream_(std::move(socket)),
      socket_(socket_stream_->handle_to(state::needs_read).descriptor),
      side_(side),
      for_data_(socket_),
      for_space_(socket_) {
    if (side_ == link_side::server) {
      memory_.make_and_send(socket_, ring_bytes);
      use_memory();
    }
  }

  stream_progress read(void* buffer, std::size_t size) override {
    if (!has_memory())
      return {state::needs_read};
    const bool woke = std::exchange(reader_slept_, false);
    if (woke) {
      in_->end_sleep();
      for_data_.silence();
    }
    if (const auto next = take(buffer, size); next.what == state::moved)
      return next;
    if (closed_)
      return {state::ended};
    if (!in_->is_finished() && !(woke && is_gone()))
      return {state::needs_read};
    // Reads what was written before the end.
    const auto last = take(buffer, size);
    return last.what == state::moved ? last : stream_progress{state::ended};
  }

  stream_progress write(std::span<const iovec> parts) override {
    if (!has_memory())
      return {state::needs_read};
    const bool woke = std::exchange(writer_slept_, false);
    if (woke) {
      out_->end_sleep();
      for_space_.silence();
    }
    if (closed_ || finished_ || (woke && is_gone()))
      fail(error_code::transport, "the other side closed the connection");
    const auto count = out_->write(parts, [this] { ring_for_data(); });
    if (count > 0)
      return {state::moved, count};
    return {state::needs_write};
  }

  stream_progress finish_writing() override {
    if (closed_)
      return {state::moved};
    if (!has_memory())
      return {state::needs_read};
    finished_ = true;
    out_->finish([this] { ring_for_data(); });
    return {state::moved};
  }

  void close() override {
    closed_ = true;
    socket_stream_->close();
  }

  /// The caller is about to wait.
  wait_handle handle_to(state need) const override {
    auto& place = need == state::needs_read ? for_data_ : for_space_;
    if (has_rings_ && need == state::needs_read) {
      reader_slept_ = true;
      if (!in_->begin_sleep())
        place.ring();
    }
    if (has_rings_ && need == state::needs_write) {
      writer_slept_ = true;
      if (!out_->begin_sleep())
        place.ring();
    }
    return {place.get(), true};
  }

 private:
  /// The number of the ring to which this end writes.
  std::size_t out_index() const { return side_ == link_side::server ? 0 : 1; }

  void ring_for_data() const {
    waiting_place::ring(memory_.data_doorbells[out_index()].get());
  }

  /// A client receives the memory in its first read or write after it was sent.
  bool has_memory() {
    if (has_rings_)
      return true;
    const std::scoped_lock lock(mutex_);
    if (!has_rings_ && memory_.receive(socket_))
      use_memory();
    return has_rings_;
  }

  void use_memory() {
    const auto out = out_index(), in = 1 - out;
    out_.emplace(memory_.ring(out), memory_.ring_bytes);
    in_.emplace(memory_.ring(in), memory_.ring_bytes);
    for_data_.add(memory_.data_doorbells[in].get());
    for_space_.add(memory_.space_doorbells[out].get());
    has_rings_ = true;
  }

  stream_progress take(void* buffer, std::size_t size) {
    const auto count = in_->read(buffer, size, [this] {
      waiting_place::ring(memory_.space_doorbells[1 - out_index()].get());
    });
    if (count > 0)
      return {state::moved, count};
    return {state::needs_read};
  }

  /// Whether the other side has closed its socket, or died.
  bool is_gone() const {
    char byte = 0;
    const auto count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count > 0)
      fail(error_code::transport,
           "the other side sent bytes beside the shared memory; run the same "
           "program");
    return count == 0 || (errno != EAGAIN && errno != EINTR);
  }

  stream_pointer socket_stream_;
  int socket_;
  link_side side_;
  mutable waiting_place for_data_, for_space_;
  shared_memory memory_;
  std::mutex mutex_;  // guards receiving the memory
  std::atomic<bool> has_rings_ = false;
  mutable std::optional<ring_writer> out_;  // used by the writer
  mutable std::optional<ring_reader> in_;   // used by the reader
  mutable bool reader_slept_ = false;
  mutable bool writer_slept_ = false;
  std::atomic<bool> closed_ = false, finished_ = false;
};

}  // namespace

stream_pointer shared_stream(stream_pointer socket, link_side side,
                             std::size_t ring_bytes) {
  return std::make_unique<shared_bytes>(std::move(socket), side, ring_bytes);
}

}  // namespace troupe
