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

/// Assembles frames from a stream's bytes.
class incoming_frames {
 public:
  explicit incoming_frames(const connection_events& events) : events_(events) {}

  bool said_goodbye() const { return said_goodbye_; }

  /// Reads until nothing more is available, or about `turn_bytes` have been
  /// read, so that others get their turn: then `moved`. `bytes` counts bytes
  /// read.
  stream_progress::state take_from(byte_stream& stream,
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
      while (step()) {
      }
    }
    return stream_progress::state::moved;
  }

 private:
  static constexpr std::size_t staging_bytes = 16 * 1024;
  static constexpr std::size_t turn_bytes = 1024 * 1024;

  std::size_t filled() const { return end_ - begin_; }
  const char* staged() const { return staged_.data() + begin_; }

  /// The space after the staged bytes; at least one byte.
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

  /// Takes one part of a frame from the staged bytes; false if more is needed.
  bool step() {
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
  std::vector<iovec> parts_;
  std::size_t body_ = 0;
};

/// A frame being written.
struct outgoing_frame {
  explicit outgoing_frame(frame what)
    : start(frame_start(what)), kept(std::move(what)) {
    parts.push_back({start.data(), start.size()});
    for (const auto& tensor : kept.tensors)
      if (tensor.defined() && tensor.nbytes() > 0)
        parts.push_back({tensor.data_ptr(), tensor.nbytes()});
  }
  outgoing_frame(const outgoing_frame&) = delete;
  outgoing_frame& operator=(const outgoing_frame&) = delete;

  std::string start;
  frame kept;
  std::vector<iovec> parts;
  std::size_t done = 0;  // parts that are written

  /// Marks so many more bytes as written; returns those beyond its end.
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

/// Frames waiting to be written, oldest first.
class outgoing_frames {
 public:
  void add(frame what) { frames_.emplace_back(std::move(what)); }
  bool empty() const { return frames_.empty(); }
  std::size_t size() const { return frames_.size(); }
  void clear() { frames_.clear(); }

  /// The next bytes; they stay valid while frames are added.
  std::vector<iovec> next() const {
    constexpr std::size_t most_parts = 64;
    std::vector<iovec> parts;
    for (const auto& frame : frames_)
      for (auto i = frame.done; i < frame.parts.size(); ++i)
        if (parts.size() < most_parts)
          parts.push_back(frame.parts[i]);
    return parts;
  }

  /// Returns the written frames, to be freed without a lock.
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
  std::deque<outgoing_frame> frames_;
};

}  // namespace troupe
