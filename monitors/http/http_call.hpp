#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/base/deadline.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// Ends what a thread waits for, now or later, from any other.
class interruption {
 public:
  interruption();
  void raise() const;
  /// Readable once it was raised.
  int handle() const { return raised_.get(); }

 private:
  owned_descriptor raised_;
};

/// A connection on which nothing waits beyond a deadline; one thread uses it.
/// Members throw `interrupted` once the interruption, which outlives it, was
/// raised.
class stream_socket {
 public:
  /// Throws `transport` where nobody listens, or, at a unix socket, who does is
  /// another user.
  stream_socket(const endpoint& address, const deadline& until,
                const trust& trusted, const interruption& ended);

  enum class outcome : std::uint8_t { bytes, late, ended };
  /// Appends what comes. A connection that is cut has `ended`, too.
  outcome read(std::string& target, const deadline& until);
  /// All of it. Throws `transport`.
  void write(std::string_view bytes, const deadline& until);
  /// What to wait for until there may be more to read.
  int handle() const { return handle_; }

 private:
  bool connect(const socket_address& target, const deadline& until);
  bool wait_for(short what, const deadline& until);
  bool wait_for(stream_progress::state need, const deadline& until);

  const interruption& ended_;
  int handle_ = -1;  // the stream's, once that is there
  stream_pointer stream_;
};

/// Where requests go, and what shows their right.
struct http_target {
  endpoint address;
  trust trusted{};
  std::string token{};  // for a unix socket; empty: none
};

/// A request over a connection of its own, and its answer.
class http_call {
 public:
  /// Sends the request, `body` as JSON unless it is empty. From now on it has
  /// `patience` seconds for the answer. Throws as `stream_socket`.
  http_call(const http_target& target, std::string_view method,
            const std::string& path, const std::string& body, double patience,
            const interruption& ended);
  ~http_call();
  http_call(http_call&&) noexcept;
  http_call& operator=(http_call&&) noexcept;

  /// Waits for the answer's headers. Throws `transport` where none come within
  /// the patience, or what comes is not HTTP.
  unsigned status();
  /// Waits for the whole body. Throws `transport` beyond 16 MiB, and as
  /// `status` does.
  std::string body();
  /// Waits for the first line of a stream. Throws as `status` does.
  std::string first_line();
  /// The next line of a stream; none: there is none by then, or it has ended.
  /// Throws `transport` for a line of more than 16 MiB.
  std::optional<std::string> line(const deadline& until);
  /// Whether nothing more comes.
  bool ended() const;
  int handle() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
