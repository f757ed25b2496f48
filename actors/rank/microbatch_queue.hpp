#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"

namespace troupe {

/// A microbatch for a stage: on the device from `ready` on, if there is one.
struct held_data {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  std::int64_t sent = 0;  // by the loader
  std::shared_ptr<const microbatch_data> data;
  event_handle ready = {};
  bool brought = false;
};

/// The microbatches of a step for the stages of a rank that read data: asked of
/// the loader some ahead of the ops that take them. One thread at a time.
class microbatch_queue {
 public:
  microbatch_queue(const rank_setup& setup, rank_ports& ports)
    : setup_(setup), ports_(ports) {}

  /// Asks for the first microbatches of each stage of the rank.
  void begin(const step_pointer& step);
  /// A microbatch of this step. Throws `internal` if it is of another one, or
  /// there.
  void put(loaded_data message);
  bool has(std::int32_t stage, std::int32_t microbatch) const;
  /// Starts the way to the device of all data that is here.
  void bring(const stage_device& device);
  /// The microbatch that a forward reads; its last slice takes it, and asks for
  /// one more. Throws `internal` if it is not there.
  held_data take(const plan_op& forward);
  bool empty() const { return held_.empty(); }
  std::size_t size() const { return held_.size(); }

 private:
  void ask(std::int32_t stage, std::int32_t up_to);

  const rank_setup& setup_;
  rank_ports& ports_;
  step_pointer step_;
  std::vector<held_data> held_;      // few at a time
  std::vector<std::int32_t> asked_;  // by stage: for so many
};

}  // namespace troupe
