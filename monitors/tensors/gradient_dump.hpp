#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

struct gradient_dump_options {
  std::string folder = ".";
  std::int64_t start = 0;  // first step, inclusive
  std::int64_t end = std::numeric_limits<std::int64_t>::max();  // inclusive
  std::int64_t every = 1;  // steps with (step - start) % every == 0
  /// Only the first n of every dimension, a file a parameter; else all.
  std::optional<std::int64_t> save_first_n{};
  std::string match = "*";  // globs over parameters
  /// Bytes of gradients that may wait or be held; it is detached beyond.
  std::int64_t held_bytes = monitor_limits{}.held_bytes;
};

/// Writes gradients as they are before clipping and the update, averaged over
/// replicas and without loss scale, as safetensors under the folder:
/// `gradients/step{N}/full_gradients/stage{s}.safetensors` under the names of
/// the parameters, or with `save_first_n` `gradients/step{N}/
/// sampled_gradients/{parameter}.safetensors`, key `gradient`. Throws
/// `invalid_argument` naming the field.
monitor gradient_dump_monitor(const gradient_dump_options& options);

}  // namespace troupe
