#pragma once

#include <string>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// One call of a module, or one gradient, as lines of text in the form of
/// Hugging Face's DebugUnderflowOverflow.
struct module_frame {
  std::vector<const tensor_record*> records;  // into the event
  std::string text;                           // ends with a newline
};

/// The frames of an op, in causal order. They point into `op`.
std::vector<module_frame> frames_of(const tensors_event& op);

/// "rank 1, stage 1, microbatch 0, forward".
std::string place_text(const tensors_event& op);

/// The line above frames, and those around a batch's (the first of which ends
/// with the header); with newlines.
std::string frame_header();
std::string start_of_batch(std::int64_t batch);
std::string end_of_batch(std::int64_t batch);

}  // namespace troupe
