#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "troupe/engine/transport/endpoint.hpp"

namespace troupe {

/// A moment after which nothing is waited for.
class deadline {
 public:
  /// So many seconds from now; infinity: never.
  explicit deadline(double seconds);
  /// For `poll`: at least 0; -1: without end.
  int milliseconds() const;

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point when_ = clock::time_point::max();
};

/// A connection on which nothing waits beyond a deadline. One thread uses it;
/// `interrupt` from any.
class stream_socket {
 public:
  /// Throws `transport` where nobody listens.
  stream_socket(const endpoint& at, const deadline& until);
  ~stream_socket();
  stream_socket(const stream_socket&) = delete;
  stream_socket& operator=(const stream_socket&) = delete;

  enum class outcome : std::uint8_t { bytes, late, ended };
  /// Appends what comes. Throws `interrupted`.
  outcome read(std::string& into, const deadline& until);
  /// All of it. Throws `transport`, `interrupted`.
  void write(std::string_view bytes, const deadline& until);
  void interrupt();

 private:
  bool connect(const socket_address& to, const deadline& until);
  bool wait_for(short what, const deadline& until);

  int handle_ = -1;
  int wake_ = -1;
};

}  // namespace troupe
