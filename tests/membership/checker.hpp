#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "troupe/engine/membership/choose_step.hpp"
#include "troupe/engine/membership/record_store.hpp"
#include "undisturbed.hpp"

namespace troupe::simulated {

using membership::member_id;

/// The invariants, over the whole history. The first violation is kept.
class checker {
 public:
  checker(const membership::job_shape& shape, bool waits_for_leases)
    : shape_(shape), undisturbed_(shape), is_strict_(waits_for_leases) {}

  void violated(std::string what) {
    if (violation_.empty())
      violation_ = std::move(what);
  }
  const std::string& violation() const { return violation_; }

  std::uint64_t first_state(std::int32_t rank) {
    return undisturbed_.state(rank, 0);
  }
  /// A rank's state has the bits of the undisturbed run.
  void applied(int self, std::int32_t rank, std::int64_t step,
               std::uint64_t hash);
  /// Members apply only steps that were decided, and none of an earlier epoch
  /// than their own.
  void applied_step(int self, std::int64_t epoch, std::int64_t step);
  /// A leader's decision: all hosts have prepared the step. Two maps never run:
  /// no later epoch has begun, or it is the one step for which the hosts that
  /// went on had voted, if the job doesn't wait for leases.
  void decided(int self, const membership::epoch&, std::int64_t step);
  /// The gradients of a step are complete at a host.
  void prepared(int self, std::int64_t epoch, std::int64_t step) {
    prepared_.insert({epoch, step, self});
  }
  /// All begin an epoch alike.
  void begun(int self, const membership::epoch&);
  /// Numbers grow by one, and no step is lost whose states are there: `living`
  /// is what the members of the new epoch hold in truth.
  void formed(const membership::job_record&,
              const std::vector<membership::member_copies>& living);
  /// The newest step of which each state is there.
  std::optional<std::int64_t> newest_step(
    const std::vector<membership::member_copies>& living) const;

  std::int64_t decisions() const { return decisions_; }
  std::int64_t repeated() const { return repeated_; }
  std::int64_t epochs() const { return last_formed_; }

 private:
  bool is_whole(const std::vector<membership::member_copies>& living,
                std::int64_t step, bool counts_prepared) const;

  membership::job_shape shape_;
  undisturbed_run undisturbed_;
  std::string violation_;
  std::int64_t last_formed_ = 0, last_begun_ = 0;
  std::map<std::int64_t, membership::epoch> epochs_;  // as they first began
  std::set<std::pair<std::int64_t, std::int64_t>> decided_;  // epoch, step
  std::set<std::tuple<std::int64_t, std::int64_t, member_id>> prepared_;
  std::map<std::int64_t, std::int64_t> late_;  // by epoch: decided afterwards
  bool is_strict_;
  std::int64_t decisions_ = 0, repeated_ = 0, last_decided_ = 0;
};

}  // namespace troupe::simulated
