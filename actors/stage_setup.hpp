#pragma once

#include <functional>
#include <memory>
#include <string>

#include "troupe/actors/device_links.hpp"
#include "troupe/actors/messages.hpp"
#include "troupe/actors/progress_board.hpp"
#include "troupe/engine/device/rank_device.hpp"

namespace troupe {

/// A stage actor's constructor arguments.
struct stage_setup {
  std::uint64_t run = 0;
  std::int32_t data_rank = 0;
  std::int32_t rank = 0;
  std::int32_t stage = 0;
  std::shared_ptr<troupe::stage> work;
  std::shared_ptr<progress_board> board;
  bool needs_data = false;      // inputs, targets or arguments
  std::int32_t prefetch = 2;    // microbatches asked for ahead
  bool reduces = false;         // more than one replica
  bool waits_for_norm = false;  // clipping, or a dynamic loss scale
  overlap_options overlap;
  /// The rank's device; null: the CPU.
  std::shared_ptr<rank_device> device;
  /// To devices of other processes; null: what goes there takes the host.
  std::shared_ptr<device_links> links;
  /// Whether a stage of this replica lives in another process.
  std::function<bool(std::int32_t stage)> is_far;
};

/// "gradient of microbatch 3 slice 0 from stage 2 to stage 1".
std::string summary(const envelope& e);

/// The last op of the plan that the stage executes.
std::uint32_t last_op_of(const plan& plan, std::int32_t stage);

/// The announcement and tensors for a neighbour; `message` is the plan's.
stage_tensors pack(const stage_setup& by, const step_context& step,
                   tensor_list tensors, microbatch_key key, bool backward,
                   std::int32_t message);

/// Throws `mismatch` for tensors that the stage can't be meant to get, or that
/// are not what they announce. `step`: the one that runs; null: none yet.
void require_expected(const stage_tensors& message, const stage_setup& by,
                      const step_context* step);

}  // namespace troupe
