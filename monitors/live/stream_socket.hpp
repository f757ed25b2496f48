#pragma once

#include <string>
#include <string_view>

#include "troupe/base/deadline.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// A connection on which nothing waits beyond a deadline. One thread uses it;
/// `interrupt` from any.
class stream_socket {
 public:
  /// Throws `transport` where nobody listens, or who does is not to be
  /// trusted.
  stream_socket(const endpoint& address, const deadline& until,
                const trust& trusted = {});

  enum class outcome : std::uint8_t { bytes, late, ended };
  /// Appends what comes. Throws `interrupted`.
  outcome read(std::string& target, const deadline& until);
  /// All of it. Throws `transport`, `interrupted`.
  void write(std::string_view bytes, const deadline& until);
  void interrupt();

 private:
  bool connect_any(const endpoint& address, const deadline& until);
  bool connect(const socket_address& target, const deadline& until);
  void introduce(const endpoint& address, const trust& trusted,
                 const deadline& until);
  void check_interrupt() const;
  bool wait_for(short what, const deadline& until);
  bool wait_for(stream_progress::state need, const deadline& until);

  int handle_ = -1;  // the stream's, once that is there
  owned_descriptor wake_;
  stream_pointer stream_;
};

}  // namespace troupe
