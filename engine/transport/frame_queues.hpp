#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/transport/connection.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"

namespace troupe {

/// Adds the bytes of tensors to a list of parts to read or write.
inline void add_bytes(std::vector<iovec>& parts, const tensor_list& tensors) {
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.nbytes() > 0)
      parts.push_back({tensor.data_ptr(), tensor.nbytes()});
}

inline void advance(iovec& part, std::size_t bytes) {
  part.iov_base = static_cast<char*>(part.iov_base) + bytes;
  part.iov_len -= bytes;
}

/// Assembles frames from a stream's bytes.
class incoming_frames {
 public:
  explicit incoming_frames(const connection_events& events) : events_(events) {}

  bool said_goodbye() const { return said_goodbye_; }

  /// Reads until nothing more is available, or until about `turn_bytes` have
  /// been read, so that others get their turn: then returns `moved`. Adds the
  /// bytes that were read to `bytes`.
  stream_progress::state read_from(byte_stream& stream,
                                   std::atomic<std::int64_t>& bytes) {
    for (std::size_t left = turn_bytes; left > 0;) {
      const bool direct = body_ < parts_.size();
      const auto target = direct ? parts_[body_] : free_space();
      const auto progress = stream.read(target.iov_base, target.iov_len);
      if (progress.what != stream_progress::state::moved)
        return progress.what;
      bytes += static_cast<std::int64_t>(progress.bytes);
      left -= std::min(left, progress.bytes);
      if (direct)
        fill(progress.bytes);
      else
        end_ += progress.bytes;
      while (parse()) {
      }
    }
    return stream_progress::state::moved;
  }

 private:
  static constexpr std::size_t staging_bytes = 16 * 1024;
  static constexpr std::size_t turn_bytes = 1024 * 1024;

  std::size_t filled() const { return end_ - begin_; }
  const char* staged() const { return staged_.data() + begin_; }

  /// The space behind the staged bytes, of at least one byte.
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

  /// Takes the next parts of a frame from the staged bytes; returns whether
  /// there may be another frame behind it.
  bool parse() {
    if (!header_) {
      if (filled() < frame_header::bytes)
        return false;
      header_ =
        read_frame_header({staged(), frame_header::bytes}, events_.limits);
      begin_ += frame_header::bytes;
    }
    if (!has_head_) {
      if (filled() < header_->head_bytes)
        return false;
      begin_body();
    }
    while (body_ < parts_.size() && filled() > 0) {
      const auto count = std::min(filled(), parts_[body_].iov_len);
      std::memcpy(parts_[body_].iov_base, staged(), count);
      begin_ += count;
      fill(count);
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
    add_bytes(parts_, current_.tensors);
  }

  void fill(std::size_t bytes) {
    advance(parts_[body_], bytes);
    if (parts_[body_].iov_len == 0)
      ++body_;
  }

  void finish() {
    header_.reset();
    has_head_ = false;
    parts_.clear();
    body_ = 0;
    auto whole = std::exchange(current_, {});
    if (whole.type == frame_type::goodbye)
      said_goodbye_ = true;
    else if (events_.arrived)
      events_.arrived(std::move(whole));
  }

  const connection_events& events_;
  std::string staged_ = std::string(staging_bytes, 0);
  std::size_t begin_ = 0, end_ = 0;  // of the staged bytes
  std::optional<frame_header> header_;
  bool has_head_ = false;
  bool said_goodbye_ = false;
  frame current_;
  std::vector<iovec> parts_;  // of the current frame's tensors
  std::size_t body_ = 0;      // the part that is being filled
};

/// A frame being written.
struct outgoing_frame {
  explicit outgoing_frame(frame message)
    : start(frame_start(message)), tensors(std::move(message.tensors)) {
    parts.push_back({start.data(), start.size()});
    add_bytes(parts, tensors);
  }
  outgoing_frame(const outgoing_frame&) = delete;
  outgoing_frame& operator=(const outgoing_frame&) = delete;

  std::string start;
  tensor_list tensors;
  std::vector<iovec> parts;
  std::size_t written = 0;  // parts

  bool is_written() const { return written == parts.size(); }
  /// Marks so many more bytes as written; returns those beyond its end.
  std::size_t advance(std::size_t bytes) {
    while (bytes > 0 && !is_written()) {
      auto& part = parts[written];
      const auto count = std::min(bytes, part.iov_len);
      troupe::advance(part, count);
      bytes -= count;
      if (part.iov_len == 0)
        ++written;
    }
    return bytes;
  }
};

/// Frames waiting to be written, oldest first.
class outgoing_frames {
 public:
  void add(frame message) { frames_.emplace_back(std::move(message)); }
  bool empty() const { return frames_.empty(); }
  std::size_t size() const { return frames_.size(); }
  void clear() { frames_.clear(); }

  /// The next bytes; they stay valid while frames are added.
  std::vector<iovec> next() const {
    constexpr std::size_t most_parts = 64;
    std::vector<iovec> parts;
    for (const auto& frame : frames_)
      for (auto i = frame.written; i < frame.parts.size(); ++i)
        if (parts.size() < most_parts)
          parts.push_back(frame.parts[i]);
    return parts;
  }

  /// Returns the tensors of written frames, to be freed without a lock.
  std::vector<tensor_list> advance(std::size_t bytes) {
    std::vector<tensor_list> written;
    while (!frames_.empty()) {
      auto& first = frames_.front();
      bytes = first.advance(bytes);
      if (!first.is_written())
        break;
      written.push_back(std::move(first.tensors));
      frames_.pop_front();
    }
    return written;
  }

 private:
  std::deque<outgoing_frame> frames_;
};

}  // namespace troupe
