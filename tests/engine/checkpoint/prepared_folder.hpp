#pragma once

#include <ATen/ops/full.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "../../temporary_folder.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

namespace troupe::testing {

inline manifest manifest_of(std::int64_t step) {
  return {.run = "abc",
          .progress = {.step = step, .microbatches = 8 * step},
          .settings = {{"seed", "7"}},
          .aliases = {{"head.weight", "embedding.weight"}},
          .files = {}};
}

inline parameter_list part_of(std::int64_t step, std::int32_t part) {
  const auto value = static_cast<float>(100 * part + step);
  parameter_list tensors{
    {part == 0 ? "embedding.weight" : "last.weight", at::full({2, 3}, value)}};
  tensors.emplace_back(state_name("exp_avg", tensors[0].first),
                       at::full({2, 3}, -value));
  return tensors;
}

/// Saves a checkpoint of two parts; returns what `complete` returns.
inline std::string save(const checkpoint_folder& to, std::int64_t step,
                        const kept_checkpoints& retention = {}) {
  for (std::int32_t part = 0; part < 2; ++part)
    to.write_part(step, part, part_of(step, part));
  return to.complete(manifest_of(step), 2, retention);
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A folder for checkpoints of two parts.
struct prepared_folder {
  prepared_folder() { folder.prepare(); }
  temporary_folder at{};
  checkpoint_folder folder{at / "all"};
};

inline std::size_t entries_in(const std::string& folder) {
  return static_cast<std::size_t>(
    std::distance(std::filesystem::directory_iterator(folder), {}));
}

}  // namespace troupe::testing
