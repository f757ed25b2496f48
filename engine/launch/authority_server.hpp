#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/trust/credentials.hpp"

namespace troupe {

struct authority_server_options {
  /// The processes that are to host ranks; the job begins when all have come.
  std::int32_t processes = 1;
  /// More that wait to take the place of lost ones.
  std::int32_t spares = 0;
  std::string job{};  // a name, unique on its machine
  credentials shown{};
  /// A process of which nothing is heard for so long is lost.
  std::chrono::milliseconds silent_after = std::chrono::seconds(10);
  /// The job stops when it loses more processes than this within a time.
  std::int32_t most_losses = 10;
  std::chrono::minutes losses_within{10};
  /// Called when an epoch begins, with a sentence that tells why, on the
  /// server's thread.
  std::function<void(const std::string&)> news{};
  /// Called when an epoch begins without a process that was silent for too
  /// long: it may still hold files and ports that another one needs now, which
  /// waits until this returns. Same thread.
  std::function<void(std::int64_t pid)> given_up{};
};

/// The authority of a job that heals (engine/membership/authority.hpp), at an
/// endpoint where the job's processes connect (job_membership). Its record is
/// in this process's memory. Any thread.
class authority_server {
 public:
  /// Throws as `acceptor` does.
  authority_server(const endpoint& where, authority_server_options options);
  ~authority_server();
  authority_server(const authority_server&) = delete;
  authority_server& operator=(const authority_server&) = delete;

  /// A process has ended. Returns whether it was a member, and the job goes on
  /// without it, so that it may be started again.
  bool process_ended(std::int64_t pid);
  /// Whether a process of a job that heals has come.
  bool has_begun() const;
  /// Whether the process has left the job, which goes on without it.
  bool has_left(std::int64_t pid) const;
  /// Whether the process is a member of the last epoch.
  bool has_part(std::int64_t pid) const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
