#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/step/messages.hpp"
#include "troupe/engine/transport/frame.hpp"

namespace troupe {

/// The plans that the processes of a job may run, all of one placement: bounds
/// for what another process may send, which may begin a step before this one
/// does. Thread-safe.
class job_plans {
 public:
  explicit job_plans(const std::vector<plan_pointer>& plans);

  /// Every process adds a plan before any of them runs it.
  void add(const plan& further);

  const placement& places() const { return placement_; }
  /// The largest numbers of any plan. `credits`: messages of one replica that
  /// may be sent and not consumed.
  struct limits {
    std::int64_t messages = 0, microbatches = 0, credits = 0;
  };
  limits most() const;

 private:
  placement placement_;
  mutable std::mutex mutex_;
  limits most_;
};

/// Holds what other processes send against the plans: tensors before memory is
/// taken for them. All throw `mismatch`. Thread-safe.
class admission {
 public:
  /// `parameter_bytes`: of the largest stage that lives here.
  admission(job_layout layout, std::uint64_t run,
            std::shared_ptr<const job_plans> plans,
            std::int64_t parameter_bytes)
    : layout_(layout),
      run_(run),
      plans_(std::move(plans)),
      parameter_bytes_(parameter_bytes),
      held_(static_cast<std::size_t>(layout.processes)) {}

  /// Notes that a step begins in this process.
  void begin(const step_pointer& step);

  /// Refuses tensors of another run or replica, more than their channels have
  /// credits for, from or for a stage that lives elsewhere, of a message that
  /// no plan has, or far larger than those of their kind so far and than the
  /// parameters that are here.
  void check(std::int32_t sender, const frame_head& announced);
  /// Notes that admitted tensors were consumed.
  void consumed(std::int32_t sender);
  /// Refuses gradients of more bytes than the parameters that are here.
  void check_part(std::int32_t sender,
                  const std::vector<tensor_form>& announced) const;
  /// Refuses what another process tells of ops, messages, ranks and stages that
  /// the plan does not have, for monitors, and of ranks that live elsewhere.
  void check(std::int32_t sender, const rank_done& report);
  void check(std::int32_t sender, const event& observed) const;
  /// Refuses tokens that the last stage of the replica can't have chosen: of
  /// another process, step, microbatch or slice, or for other rows.
  void check(std::int32_t sender, const chosen_tokens& tokens);

 private:
  void count(std::int32_t sender);
  void require_place(std::int32_t sender, const envelope& header) const;
  void require_size(std::int32_t sender, const envelope& header,
                    std::int64_t bytes);

  job_layout layout_;
  std::uint64_t run_;
  std::shared_ptr<const job_plans> plans_;
  std::int64_t parameter_bytes_;
  std::mutex mutex_;  // of what follows
  step_pointer step_;
  /// Tensors of each process that are here and not consumed: as many as the
  /// credits of any plan allow, as the next step's may come before it begins
  /// here.
  std::vector<std::int64_t> held_;
  /// Replica, giving stage, taking stage; a gradient is given by the later one.
  using route = std::tuple<std::int32_t, std::int32_t, std::int32_t>;
  /// Bytes of the largest message so far.
  std::map<route, std::int64_t> largest_;
};

}  // namespace troupe
