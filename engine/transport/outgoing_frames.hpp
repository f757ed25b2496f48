#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/transport/frame.hpp"

namespace troupe {

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
