#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A cluster of etcd (version 3.4 or later), and where a job's keys are in it.
struct etcd_options {
  /// HOST:PORT of its servers; each is tried in turn.
  std::vector<std::string> servers{};
  std::string job{};  // its keys are troupe/JOB/...
  bool uses_tls = false;
  // As etcdctl has them. Files are PEM.
  std::string user{}, password{};
  std::string ca_file{}, certificate_file{}, key_file{};
  /// For an answer of one server.
  std::chrono::milliseconds time_limit = std::chrono::seconds(1);
};

/// Whether a text is meant for `parse_etcd`.
bool names_etcd(const std::string& address);
/// Reads `etcd://HOST[:PORT][,HOST[:PORT]...]/JOB`, or `etcds://` for TLS; and
/// ETCDCTL_USER (NAME:PASSWORD), ETCDCTL_CACERT, ETCDCTL_CERT and ETCDCTL_KEY.
/// Throws `invalid_argument`.
etcd_options parse_etcd(
  const std::string& address,
  const std::function<std::optional<std::string>(const std::string& name)>&
    variable);
etcd_options parse_etcd(const std::string& address);

/// Keys of a cluster, by the JSON gateway that etcd serves beside its own
/// protocol. One thread. All members throw `transport` if no server answers, or
/// one answers with an error.
class etcd_client {
 public:
  /// Throws `io` for files that can't be read.
  explicit etcd_client(etcd_options options);
  ~etcd_client();
  etcd_client(const etcd_client&) = delete;
  etcd_client& operator=(const etcd_client&) = delete;

  const etcd_options& options() const;

  struct entry {
    std::string value{};
    /// 1 for a key's first value, and one more for each that follows.
    std::int64_t version = 0;
  };
  /// `name` is a key within the job's. None: there is no such key.
  std::optional<entry> get(const std::string& name);
  /// The same without its value; 0: there is no such key.
  std::int64_t version(const std::string& name);
  /// Stores a value if the key's version is this; it is deleted with its lease,
  /// if that is not 0. Returns whether it is stored.
  bool put(const std::string& name, const std::string& value,
           std::int64_t version, std::int64_t lease = 0);
  void erase(const std::string& name);

  std::int64_t grant_lease(std::chrono::seconds duration);
  /// Returns whether the lease goes on.
  bool keep_lease(std::int64_t lease);
  void revoke_lease(std::int64_t lease);

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
