#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"

namespace troupe {

/// A microbatch for a stage: on the device from `ready` on, if there is one.
struct held_data {
  stage_instance reader;
  std::int32_t microbatch = 0;
  std::int64_t sent = 0;  // by the loader, or the last stage
  std::shared_ptr<const microbatch_data> data;
  std::int16_t slice = loaded_data::all_slices;
  event_handle ready = {};
  bool brought = false;
};

/// The microbatches of a step for the stages of a rank that read data: asked of
/// the loader some ahead of the ops that take them. One thread at a time.
class microbatch_queue {
 public:
  microbatch_queue(const rank_setup& setup, rank_ports& ports)
    : setup_(setup), ports_(ports) {}

  /// By instance of a stage that reads data: its microbatches, as it takes
  /// them.
  using orders = std::map<stage_instance, std::vector<std::int32_t>>;

  /// Asks for the first microbatches of each. The orders are the plan's, and
  /// outlive the step.
  void begin(const step_pointer& step, const orders& wanted);
  /// A microbatch of this step. Throws `internal` if it is of another one, or
  /// there.
  void put(loaded_data message);
  /// Of all slices, or of that one.
  bool has(stage_instance reader, std::int32_t microbatch,
           std::int16_t slice) const;
  /// Starts the way to the device of all data that is here.
  void bring(const stage_device& device);
  /// The microbatch that a forward reads; its last slice takes it, and asks for
  /// one more. Throws `internal` if it is not there.
  held_data take(const plan_op& forward);
  bool empty() const { return held_.empty(); }
  std::size_t size() const { return held_.size(); }

 private:
  static bool is_for(const held_data& item, stage_instance reader,
                     std::int32_t microbatch, std::int16_t slice);
  void ask(stage_instance reader);

  const rank_setup& setup_;
  rank_ports& ports_;
  step_pointer step_;
  const orders* wanted_ = nullptr;
  std::vector<held_data> held_;                  // few at a time
  std::map<stage_instance, std::size_t> asked_;  // for so many
};

}  // namespace troupe
