#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/actors/rank/op_values.hpp"
#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"

namespace troupe {

/// "gradient of microbatch 3 slice 0 from stage 2 to stage 1".
std::string summary(const envelope& e);

/// What a rank does for sends and receives: a send takes a value out of the
/// rank's store and gives it to another rank; a receive is posted, and puts the
/// value there once its message has come. One thread at a time.
class transfer_ops {
 public:
  transfer_ops(const rank_setup& setup, rank_ports& ports, value_store& values,
               const stage_device& device)
    : setup_(setup), ports_(ports), values_(values), device_(device) {}

  void begin(const step_pointer& step);
  /// `now`: in host ns.
  void send(const plan_op& op, std::int64_t now);
  void post(std::uint32_t receive);
  /// A message of the step that runs. Throws `mismatch` for one that the rank
  /// can't be meant to get.
  void on(stage_tensors message);
  /// Takes in messages whose receives are posted, and returns those.
  std::vector<std::uint32_t> complete();
  /// Messages that no receive has taken.
  std::size_t left() const { return arrived_.size(); }

 private:
  void require_expected(const stage_tensors& message) const;

  const rank_setup& setup_;
  rank_ports& ports_;
  value_store& values_;
  const stage_device& device_;
  step_pointer step_;
  /// Of a message: its receive is posted; it has come.
  enum : std::uint8_t { posted = 1, seen = 2 };
  std::vector<std::uint8_t> states_;    // by message
  std::vector<stage_tensors> arrived_;  // in that order
};

}  // namespace troupe
