#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/monitors/http/serving.hpp"

namespace troupe {

class trainer;

/// How a run is served.
struct endpoint_options {
  /// `unix:/path` or `tcp:HOST:PORT` (port 0: any); empty: a socket of the
  /// user's own, named after the process.
  std::string address{};
  /// Without any, whoever is the run's own user may control it, at a unix
  /// socket. At least one is required for tcp. Those of `site` count if it is
  /// given.
  access_tokens tokens{};
  /// The folder in which monitors that clients attach write their files; empty:
  /// they write none.
  std::string attach_folder{};
  /// The site that the resources are added to, which other servers may share;
  /// null: a site of its own.
  http_site_pointer site{};
  http_limits limits{};
  std::int64_t steps = 0;  // of the whole run; 0: unknown
  /// Steps between two searches for a faster order of the run's ops, which
  /// changes no bit; 0: only when a client asks.
  std::int64_t replan_every = 0;
};

/// Lets other processes watch a run, attach monitors to it, and change its
/// order of ops, by the requests of docs/endpoint.md: `troupe top`, `attach`,
/// `replan`, and programs. It has threads of its own, no step waits for
/// clients, and whatever a client does ends its own connection at most.
///
///     endpoint_server server(run);
class endpoint_server {
 public:
  /// Serves a trainer, which must outlive the server. Throws `invalid_argument`
  /// for the address, the tokens, the limits, or replan_every where the order
  /// can't be changed; `io` and `transport` if it can't listen there, and for
  /// the folder.
  explicit endpoint_server(trainer& run, const endpoint_options& options = {});
  /// Closes.
  ~endpoint_server();
  endpoint_server(const endpoint_server&) = delete;
  endpoint_server& operator=(const endpoint_server&) = delete;

  /// As clients write it, with the port that was taken.
  std::string where() const;
  /// Connections, with those that have not sent a request yet; any thread.
  std::size_t connections() const;

  /// Detaches all that was attached, lets clients have what waits for them
  /// for at most a second, and ends. Waits for monitors that are at work.
  void close();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
