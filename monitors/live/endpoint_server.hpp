#pragma once

#include <memory>
#include <string>

#include "troupe/engine/transport/trust/access.hpp"
#include "troupe/monitors/live/attached_monitors.hpp"

namespace troupe {

struct endpoint_options {
  job_operations operations{};
  /// Without any, whoever is the job's own user may control it, at a unix
  /// socket. At least one is required for tcp; none is ever sent.
  access_tokens tokens{};
  /// Where monitors that clients attach write their files; empty: nowhere.
  std::string attach_folder{};
  double hello_seconds = 5;     // until a client must have said hello
  double stalled_seconds = 30;  // a client may take nothing for so long
  std::size_t clients = 64;
  /// Bytes that may wait for one client; further events are dropped and
  /// counted.
  std::size_t queue_bytes = std::size_t{4} << 20;
};

/// Lets other processes attach monitors to a job, at `unix:/path` or
/// `tcp:HOST:PORT` (port 0: any). It has threads of its own: one talks to
/// clients, one attaches, and some wait for monitors that end. No step waits
/// for any, and whatever a client does ends its own connection at most.
/// docs/monitors.md has the protocol.
class endpoint_server {
 public:
  /// Throws `invalid_argument` for an endpoint that is none, and as
  /// `trust_of_job` and `attach_folder` do; `io` and `transport` if it can't
  /// listen there.
  endpoint_server(const std::string& address, endpoint_options options);
  /// Closes.
  ~endpoint_server();
  endpoint_server(const endpoint_server&) = delete;
  endpoint_server& operator=(const endpoint_server&) = delete;

  /// As clients write it, with the port that was taken.
  std::string where() const;
  /// Connections, with those that have not said hello yet; any thread.
  std::size_t connections() const;

  /// Detaches all that was attached, lets clients have what waits for them
  /// for at most a second, and ends. Waits for monitors that are at work.
  void close();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
