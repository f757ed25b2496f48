#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/etcd/etcd_client.hpp"

namespace troupe {

struct candidate_options {
  etcd_options etcd{};
  /// The endpoint at which processes reach the authority of this process, which
  /// is stored at the job's key `authority`.
  std::string where{};
  /// Starts the authority, which has its record in etcd.
  std::function<std::unique_ptr<authority_server>()> start{};
  /// Another candidate is elected when this one was silent for so long.
  std::chrono::seconds lease{5};
  /// Receives why etcd can't be asked, once for each time.
  std::function<void(const std::string&)> trouble{};
};

/// One of several processes of which etcd elects one to run the authority of a
/// job. While etcd is away, the elected one goes on, but decides nothing; one
/// that another has followed is deposed by the record. One thread.
class authority_candidate {
 public:
  /// Throws as etcd_client does.
  explicit authority_candidate(candidate_options options);
  /// Resigns, so that another one is elected at once.
  ~authority_candidate();
  authority_candidate(const authority_candidate&) = delete;
  authority_candidate& operator=(const authority_candidate&) = delete;

  /// Stands for election, or renews the lease; to be called some times in each
  /// second. May block for the time limit of each server of etcd.
  void tick();
  /// Null: another process is elected, or none.
  const authority_server* server() const { return server_.get(); }
  /// The job is done: its keys are removed, and the other candidates are told.
  void finish();
  /// Another candidate has said so since this one began.
  bool has_finished() const { return has_finished_; }

 private:
  bool is_due();
  std::string ended_job();
  void campaign();
  void renew();

  const candidate_options options_;
  etcd_client etcd_;
  std::int64_t lease_ = 0;  // 0: none
  std::chrono::steady_clock::time_point asked_at_{};
  bool is_away_ = false;                    // etcd
  std::optional<std::string> done_before_;  // how a job of that name had ended
  bool has_finished_ = false;
  std::unique_ptr<authority_server> server_;
};

}  // namespace troupe
