#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/base/deadline.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// Where requests go, and what shows their right.
struct http_target {
  endpoint address;
  trust trusted{};
  std::string token{};  // for a unix socket; empty: none
};

struct http_answer {
  unsigned status = 0;
  std::string body{};      // or the first line of a stream
  std::size_t stream = 0;  // its number, from 1; 0: the body is all
};

/// Calls a server, with a connection for each request and each stream. Nothing
/// waits beyond a time. One thread uses it; `interrupt` from any.
class http_caller {
 public:
  http_caller(http_target target, double patience);
  ~http_caller();
  http_caller(const http_caller&) = delete;
  http_caller& operator=(const http_caller&) = delete;

  /// Sends a request, `body` as JSON unless it is empty, and waits for the
  /// answer, or for the first line where that is a stream. Throws `transport`
  /// where nobody answers within the patience; where who listens at a unix
  /// socket is another user; for what is not HTTP; for more than 16 MiB.
  /// Throws `interrupted`.
  http_answer call(std::string_view method, const std::string& path,
                   const std::string& body = {});

  struct line {
    std::size_t stream;
    std::string text;
  };
  /// The next line of any stream, waiting for at most so many seconds; none if
  /// none came, or no stream goes on. Throws `interrupted`.
  std::optional<line> next_line(double seconds);
  /// Whether a stream goes on.
  bool has_streams() const { return !streams_.empty(); }

  /// Every call that waits, now or later, throws `interrupted`.
  void interrupt();

 private:
  class connection;
  struct open_stream {
    std::size_t number;
    std::shared_ptr<connection> from;
  };

  bool wait(const std::function<bool()>& is_so, const deadline& until);

  const http_target target_;
  const double patience_;
  std::atomic<bool> is_interrupted_ = false;
  std::vector<open_stream> streams_;
  std::size_t last_ = 0;
  boost::asio::io_context io_{1};
};

}  // namespace troupe
