#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace troupe {

/// The tokens by which clients of a run show their rights: to watch it, or to
/// control it, too (docs/endpoint.md). An empty one is not in use.
struct access_tokens {
  std::string watch{}, control{};

  bool empty() const { return watch.empty() && control.empty(); }
};

/// What clients at one address may use.
struct http_limits {
  /// The most that do not stream. Beyond, one is dropped: the oldest whose
  /// answer is out, else that has not sent its request yet, else that has been
  /// taking its answer for more than a second; otherwise further ones wait for
  /// their turn. Streams are bounded by those who serve them.
  std::size_t connections = 64;
  std::size_t header_bytes = 8192;                 // of a request
  std::size_t body_bytes = std::size_t{64} << 10;  // of a request
  std::size_t queue_bytes = std::size_t{4} << 20;  // that wait for a stream
  double request_seconds = 5;   // for a whole request to arrive
  double stalled_seconds = 30;  // a client may take nothing for so long
};

/// What a process serves over HTTP. The endpoint, the dashboard and the sink
/// for Prometheus add their resources to the site that they are given, and each
/// of their addresses then serves all of them.
class http_site;
using http_site_pointer = std::shared_ptr<http_site>;

/// A site without resources. The tokens give clients their rights at all
/// addresses. Throws `invalid_argument` for tokens that are short or equal.
http_site_pointer make_site(const access_tokens& tokens = {});

}  // namespace troupe
