#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// The reading end of a pipe, split into lines of at most 64 KiB. One thread.
class output_pipe {
 public:
  explicit output_pipe(owned_descriptor handle) : handle_(std::move(handle)) {}

  /// Below 0: closed.
  int handle() const { return handle_.get(); }

  /// Bytes to read.
  int pending() const {
    int bytes = 0;
    return ::ioctl(handle(), FIONREAD, &bytes) == 0 ? bytes : 0;
  }

  /// Returns the bytes that it took off the pipe, at least 1: also at the end.
  template <class Line>
  int read(Line&& line) {
    std::array<char, 2048> chunk;  // no more than `takes_output` allows
    const auto got = ::read(handle(), chunk.data(), chunk.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
      return 1;
    if (got <= 0) {
      close(line);
      return 1;
    }
    rest_.append(chunk.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (auto end = rest_.find('\n'); end != std::string::npos;
         end = rest_.find('\n', begin)) {
      line(std::string_view(rest_).substr(begin, end - begin));
      begin = end + 1;
    }
    for (; rest_.size() - begin >= longest_line; begin += longest_line)
      line(std::string_view(rest_).substr(begin, longest_line));
    rest_.erase(0, begin);
    return static_cast<int>(got);
  }

  /// Passes on an unfinished last line.
  template <class Line>
  void close(Line&& line) {
    if (!rest_.empty())
      line(std::exchange(rest_, {}));
    handle_ = {};
  }

 private:
  static constexpr std::size_t longest_line = 64 * 1024;

  owned_descriptor handle_;
  std::string rest_;
};

}  // namespace troupe
