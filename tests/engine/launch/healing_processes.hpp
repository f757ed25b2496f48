#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../../temporary_folder.hpp"
#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/authority/record_in_file.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe::testing {

/// How the processes of a test reach their authority.
enum class way : std::uint8_t { unix_socket, tcp };

/// A job of four ranks in two processes.
class healing_job {
 public:
  explicit healing_job(std::int32_t spares = 0, way by = way::unix_socket,
                       const membership::failure_policy& policy = {},
                       std::chrono::milliseconds lingers = {})
    : spares_(spares), policy_(policy), lingers_(lingers) {
    start_authority(by == way::tcp ? "tcp:127.0.0.1:0"
                                   : "unix:" + (folder_ / "authority"));
  }

  /// The authority ends, and another one takes its place, which has but the
  /// record.
  void restart_authority() {
    const auto where = authority_->where();
    authority_.reset();
    start_authority(where);
  }
  void end_authority() { authority_.reset(); }
  const authority_server& authority() const { return *authority_; }

  std::shared_ptr<job_membership> join(
    std::int32_t process, const char* rate = "0.1",
    std::chrono::milliseconds patience = std::chrono::seconds(20)) const {
    membership_options options{.authority = authority_->where(),
                               .pipeline_ranks = 4,
                               .hosting = {0, 0, 1, 1},
                               .rest_within = std::chrono::milliseconds(300),
                               .leave_within = std::chrono::milliseconds(300)};
    auto& place = options.joining.place;
    place.launcher = "test";
    place.process = process;
    place.processes = place.local_processes = 2 + spares_;
    options.joining.shown.insecure = true;
    options.joining.rendezvous = "unix:" + (folder_ / "job");
    options.joining.patience = patience;
    options.joining.description = {{"--lr", rate}};
    return std::make_shared<job_membership>(options);
  }

 private:
  void start_authority(const std::string& where) {
    const auto store = [path =
                          folder_ / "record"](membership::job_record first) {
      return std::make_unique<record_in_file>(
        path, std::move(first),
        [](const std::string& why) { throw std::runtime_error(why); });
    };
    authority_ = std::make_unique<authority_server>(
      parse_endpoint(where),
      authority_server_options{.processes = 2,
                               .spares = spares_,
                               .shown = {.insecure = true},
                               .silent_after = std::chrono::seconds(3),
                               .lingers = lingers_,
                               .policy = policy_,
                               .make_store = store});
  }

  const temporary_folder folder_;
  const std::int32_t spares_;
  const membership::failure_policy policy_;
  const std::chrono::milliseconds lingers_;
  std::unique_ptr<authority_server> authority_;
};

using held_ranks = std::vector<held_rank>;

/// A process meets the others on a thread of its own.
inline std::future<job_meeting> meet(std::shared_ptr<job_membership> process,
                                     held_ranks held = {},
                                     std::optional<failed_op> why = {}) {
  return std::async(std::launch::async,
                    [process = std::move(process), held = std::move(held),
                     why] { return process->meet(held, why); });
}

/// Both processes of a job, and what they are told of its first epoch.
struct met_processes {
  std::shared_ptr<job_membership> one, other;
  job_meeting of_one{}, of_other{};
};

template <class Job>
met_processes meet_both(const Job& job) {
  met_processes both{job.join(0), job.join(1)};
  auto first = meet(both.one), second = meet(both.other);
  both.of_one = first.get();
  both.of_other = second.get();
  return both;
}

/// Leaves the mesh, as a process whose step failed or ended does.
inline void leave(job_meeting& met) {
  met.job->leave();
  met.job.reset();
}

inline held_ranks all_after(std::int64_t step) {
  return {{0, step}, {1, step}, {2, step}, {3, step}};
}

}  // namespace troupe::testing
