#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/engine/transport/trust/access.hpp"
#include "troupe/monitors/http/http_server.hpp"
#include "troupe/monitors/live/attached_monitors.hpp"

namespace troupe {

struct endpoint_options {
  job_operations operations{};
  /// Without any, whoever is the job's own user may control it, at a unix
  /// socket. At least one is required for tcp. Those of `site` count if it is
  /// given.
  access_tokens tokens{};
  /// The folder in which monitors that clients attach write their files; empty:
  /// they write none.
  std::string attach_folder{};
  /// The site that the resources are added to, which other servers may share;
  /// null: a site of its own.
  http_site_pointer site{};
  http_options limits{};  // but the address
};

class replanner;
class trainer;

/// How a trainer is served.
struct run_endpoint_options {
  std::string address{};        // empty: a socket of the user's own, by process
  access_tokens tokens{};       // as in endpoint_options
  std::string attach_folder{};  // as in endpoint_options
  http_site_pointer site{};     // as in endpoint_options
  http_options limits{};        // but the address
  std::int64_t steps = 0;       // of the whole run; 0: unknown
  /// Changes the run's order of ops, and outlives the server; null: one of the
  /// server's own, where the order can be changed at all.
  const replanner* orders = nullptr;
};

/// Lets other processes watch a job and attach monitors to it, at `unix:/path`
/// or `tcp:HOST:PORT` (port 0: any), by the requests of docs/endpoint.md. It
/// has threads of its own: one talks to clients, one attaches, and some wait
/// for monitors that end. No step waits for any, and whatever a client does
/// ends its own connection at most.
class endpoint_server {
 public:
  /// Throws as `http_server`, `http_site` and `attach_folder` do.
  endpoint_server(const std::string& address, endpoint_options options);
  /// Serves a trainer, which must outlive the server:
  ///
  ///     endpoint_server server(run);
  explicit endpoint_server(trainer& run,
                           const run_endpoint_options& options = {});
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
  class impl;
  static std::shared_ptr<impl> opened(const std::string& address,
                                      endpoint_options options);

  std::shared_ptr<replanner> orders_;  // its own, if any
  std::shared_ptr<impl> impl_;
};

}  // namespace troupe
