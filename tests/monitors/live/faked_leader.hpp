#pragma once

#include <optional>

#include "faked_job.hpp"

namespace troupe::testing {

/// A process that leads a job that heals, without the job.
class faked_leader {
 public:
  faked_leader(const std::string& where, nlohmann::json health)
    : health_(std::move(health)) {
    auto operations = job.operations();
    operations.info = [this] { return health_; };
    operations.goes_on = [this] { return goes_on_.load(); };
    operations.failure = [this] { return failure_; };
    server_.emplace(where, job_server_options{.operations = operations});
  }

  /// The process leaves, and the job goes on.
  void leave() {
    goes_on_ = true;
    server_.reset();
  }
  void end(const std::string& failure = {}) {
    failure_ = failure;
    server_.reset();
  }

  faked_job job;

 private:
  const nlohmann::json health_;
  std::atomic<bool> goes_on_ = false;
  std::string failure_;
  std::optional<job_server> server_;
};

}  // namespace troupe::testing
