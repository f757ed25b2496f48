#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "troupe/actors/messages.hpp"

namespace troupe {

/// What a rank knows of its reductions: asked for by a stage, answered by the
/// reducer (perhaps before the stage has said so), or by the devices
/// themselves. One thread at a time.
class collective_ops {
 public:
  void begin(const step_pointer& step);

  /// A stage has launched the reduction: true if it has ended already.
  bool launched(const op_launched& answer);
  /// The reduction's op, if it was launched before. `launching`: the op that a
  /// stage launches now, if one does. Throws `internal` for an answer that
  /// nobody asked for, or that comes twice.
  std::optional<std::uint32_t> on(const gradients_reduced& message,
                                  std::optional<std::uint32_t> launching);
  /// Adds what an op waits for on its stream besides its inputs, and when that
  /// was known: a norm reads averaged gradients; nothing on the compute stream
  /// runs beside a reduction that is there, too.
  void add_waits(const plan_op& op, run_op& request, op_record& record);
  /// When the gradients of each stage are averaged on a device.
  std::vector<event_handle> ready() const;

 private:
  step_pointer step_;
  std::map<std::int32_t, std::uint32_t> asked_;      // op by stage
  std::map<std::int32_t, gradients_reduced> known_;  // by stage
  std::vector<event_handle> after_;  // for the compute stream's next op
  void note(std::uint32_t op, const event_handle& ready);
};

}  // namespace troupe
