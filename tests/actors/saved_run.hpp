#pragma once

#include <string>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"

namespace troupe::testing {

/// Writes a checkpoint, and returns its path.
inline std::string saved_run(const trainer& run, const std::string& path) {
  const checkpoint_folder folder(path);
  folder.prepare();
  const auto step = run.progress().step;
  const auto parts = run.snapshot();
  for (const auto& [part, tensors] : parts)
    folder.write_part(step, part, tensors);
  folder.complete({.run = "a run", .progress = run.progress()},
                  static_cast<std::int32_t>(parts.size()), {});
  return folder.path_of(step);
}

}  // namespace troupe::testing
