#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "troupe/monitors/http/serving.hpp"
#include "troupe/monitors/live/job_operations.hpp"

namespace troupe {

/// What clients may do on a job; the others as in endpoint_options.
struct job_server_options {
  job_operations operations{};
  access_tokens tokens{};
  std::string attach_folder{};
  http_site_pointer site{};
  http_limits limits{};
};

/// Serves a job's operations at `unix:/path` or `tcp:HOST:PORT` (port 0: any),
/// by the requests of docs/endpoint.md. It has threads of its own: one talks to
/// clients, one attaches, and some wait for monitors that end. No step waits
/// for any, and whatever a client does ends its own connection at most.
class job_server {
 public:
  /// Throws as `http_server`, `http_site` and `attach_folder` do.
  job_server(const std::string& address, job_server_options options);
  /// Closes.
  ~job_server();
  job_server(const job_server&) = delete;
  job_server& operator=(const job_server&) = delete;

  /// As clients write it, with the port that was taken.
  std::string where() const;
  /// Connections, with those that have not sent a request yet; any thread.
  std::size_t connections() const;

  /// Detaches all that was attached, lets clients have what waits for them
  /// for at most a second, and ends. Waits for monitors that are at work.
  void close();

 private:
  class impl;

  std::shared_ptr<impl> impl_;
};

}  // namespace troupe
