#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "troupe/base/fail.hpp"

namespace troupe {

/// Shared header of a ring of bytes that one process writes and another reads;
/// the bytes follow it. Counts are totals of all bytes ever moved.
///
/// An end with nothing to do sets its flag `sleeps`, checks once more, and only
/// then sleeps; an end that has moved something checks the other's flag, and
/// rings if it is set. All four steps are sequentially consistent, so one of
/// the two sees the other's step: a doorbell rings only if the other end
/// sleeps, and no end sleeps while there is work.
struct ring_header {
  alignas(128) std::atomic<std::uint64_t> written;
  std::atomic<std::uint32_t> finished;  // nothing more will be written
  alignas(128) std::atomic<std::uint64_t> taken;
  alignas(128) std::atomic<std::uint32_t> reader_sleeps;
  alignas(128) std::atomic<std::uint32_t> writer_sleeps;

  static constexpr std::size_t bytes = 4096;
};
static_assert(sizeof(ring_header) <= ring_header::bytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// State of either end. The other process may write anything into the header,
/// so an end keeps its own count private and checks what it reads: no access is
/// ever out of bounds. Throws `transport` for impossible values.
class ring_end {
 public:
  /// `memory` holds a header and `size` bytes, a power of two.
  ring_end(void* memory, std::size_t size)
    : header_(static_cast<ring_header*>(memory)),
      bytes_(static_cast<char*>(memory) + ring_header::bytes),
      size_(size) {}

 protected:
  std::size_t checked(std::uint64_t difference) const {
    if (difference > size_)
      fail(error_code::transport,
           "the other side has an impossible count of bytes in shared memory");
    return static_cast<std::size_t>(difference);
  }
  /// The byte of this count.
  char* at(std::uint64_t count) const { return bytes_ + (count & (size_ - 1)); }
  /// So many of `bytes` from there on lie before the ring wraps.
  std::size_t contiguous(std::uint64_t count, std::size_t bytes) const {
    return std::min(bytes, size_ - (count & (size_ - 1)));
  }
  /// Clears a flag of an end that sleeps; returns whether it was set.
  static bool take_flag(std::atomic<std::uint32_t>& sleeps) {
    return sleeps.load() != 0 && sleeps.exchange(0) != 0;
  }

  ring_header* header_;
  char* bytes_;
  std::size_t size_;
  std::uint64_t own_ = 0;  // the count that this end moves
};

class ring_writer : public ring_end {
 public:
  using ring_end::ring_end;

  /// Copies the bytes that fit; calls `ring` if the reader sleeps.
  template <class Ring>
  std::size_t write(std::span<const iovec> parts, Ring&& ring) {
    std::size_t total = 0, room = free_bytes();
    for (const auto& part : parts)
      for (std::size_t done = 0; done < part.iov_len && room > 0;) {
        const auto count = contiguous(
          own_, std::min({part.iov_len - done, room, most_at_once - pending_}));
        std::memcpy(at(own_), static_cast<const char*>(part.iov_base) + done,
                    count);
        own_ += count;
        done += count;
        room -= count;
        total += count;
        pending_ += count;
        if (pending_ == most_at_once)
          publish(ring);
      }
    publish(ring);
    return total;
  }
  template <class Ring>
  void finish(Ring&& ring) {
    header_->finished.store(1);
    if (take_flag(header_->reader_sleeps))
      ring();
  }
  /// Returns false if there is room already, or will be soon.
  bool begin_sleep() {
    header_->writer_sleeps.store(1);
    return free_bytes() < size_ / 4;
  }
  void end_sleep() { header_->writer_sleeps.store(0); }

 private:
  /// Small pieces let the reader copy while the writer does.
  static constexpr std::size_t most_at_once = 128 * 1024;

  std::size_t free_bytes() const {
    return size_ - checked(own_ - header_->taken.load());
  }
  template <class Ring>
  void publish(Ring&& ring) {
    if (pending_ == 0)
      return;
    pending_ = 0;
    header_->written.store(own_);
    if (take_flag(header_->reader_sleeps))
      ring();
  }

  std::size_t pending_ = 0;  // copied, but not yet published
};

class ring_reader : public ring_end {
 public:
  using ring_end::ring_end;

  /// Copies available bytes, at most `size`; calls `ring` if the writer sleeps
  /// and a quarter of the ring is free.
  template <class Ring>
  std::size_t read(void* buffer, std::size_t size, Ring&& ring) {
    const auto available = filled();
    const auto count = std::min({available, size, most_at_once});
    if (count == 0)
      return 0;
    const auto first = contiguous(own_, count);
    std::memcpy(buffer, at(own_), first);
    std::memcpy(static_cast<char*>(buffer) + first, at(own_ + first),
                count - first);
    own_ += count;
    header_->taken.store(own_);
    if (available - count <= size_ / 4 * 3 && take_flag(header_->writer_sleeps))
      ring();
    return count;
  }
  bool is_finished() const { return header_->finished.load() != 0; }
  bool is_empty() const { return filled() == 0; }
  /// Returns false if something has arrived already.
  bool begin_sleep() {
    header_->reader_sleeps.store(1);
    return is_empty() && !is_finished();
  }
  void end_sleep() { header_->reader_sleeps.store(0); }

 private:
  static constexpr std::size_t most_at_once = 256 * 1024;

  std::size_t filled() const { return checked(header_->written.load() - own_); }
};

}  // namespace troupe
