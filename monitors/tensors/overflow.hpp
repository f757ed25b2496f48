#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Which tensors of a run are read.
enum class overflow_reading : std::uint8_t {
  /// Reads the tensors that leave the ops: the outputs of stages, the gradients
  /// of their inputs,
  /// losses and the gradients of parameters. If one is not finite, the step is
  /// run again before its update, and all tensors are read (see
  /// subscription::watches). A value that is not finite is missed if nothing of
  /// that follows from it.
  watch,
  full,  // all, in each step
};
template <>
inline constexpr auto largest_value<overflow_reading> = overflow_reading::full;

constexpr const char* to_text(overflow_reading reading) {
  return reading == overflow_reading::watch ? "watch" : "full";
}

struct overflow_options {
  /// None: `watch`, but `full` where `trace` or `underflow_share` need it. A
  /// run that can't run steps again, as its updates don't wait
  /// (execution_options::holds_updates), is read in full, too.
  std::optional<overflow_reading> reading{};
  std::size_t frames = 21;  // kept and shown before the first bad tensor
  /// Batches (steps counted from 0) whose frames are all printed, without
  /// detection.
  std::vector<std::int64_t> trace{};
  /// The run is stopped after this batch; -1: never.
  std::int64_t abort_after = -1;
  /// An alert if more than this share of a tensor's values would become zero
  /// in fp16; 0: never.
  double underflow_share = 0;
  bool stop = true;  // stop the run at the first bad tensor; else tell only
  std::string match = "*";
  std::int64_t every = 1;  // steps with step % every == 0
  /// Where traces and reports are printed; empty: to standard output.
  std::function<void(const std::string&)> print{};
};

/// Finds the first tensor with a NaN or an infinity of a step (Hugging Face's
/// DebugUnderflowOverflow, across stages and backwards as well): "first" in
/// causal order, so that of a microbatch the forward through the stages comes
/// before the loss and that before the backward through them; microbatches in
/// ascending order; gradients of parameters last. Reports it, with the frames
/// before it, when the step is over, and stops the run. Gradients alone that
/// overflow at a loss scale above 1, so that the update was left out and the
/// scale halves, are an alert, and the run goes on.
///
/// Both readings name the same tensor, with the same frames of its step. Frames
/// of the step before are there only if that was read, too.
///
/// A frame is a module's call: its weights, inputs and outputs, with min|x|
/// and max|x| each. Throws `invalid_argument` naming the field.
monitor overflow_monitor(const overflow_options& options, sink_pointer sink);

}  // namespace troupe
