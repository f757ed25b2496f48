#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

struct sample_options {
  std::int64_t tokens = 200;
  std::int64_t length = 128;  // longest context of the model
  double temperature = 0.8;   // 0: always the most likely
  std::uint64_t seed = 1;
};

/// Continues token ids, one at a time: returns the prompt, of at least one id,
/// and its continuation. `logits_of` maps ids [1, t] to logits [1, t,
/// vocabulary].
std::vector<std::int64_t> sample_ids(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  std::vector<std::int64_t> prompt, const sample_options& options);

/// Continues a byte text, a byte at a time. `logits_of` maps ids [1, t] to
/// logits [1, t, 256]. Returns the prompt and its continuation; bytes that are
/// not printable ASCII (or a line break) become '?'.
std::string sample_text(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  const std::string& prompt, const sample_options& options);

}  // namespace troupe
