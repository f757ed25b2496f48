#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

struct sample_options {
  std::int64_t tokens = 200;
  std::int64_t length = 128;  // longest context that the model takes
  double temperature = 0.8;   // 0: always the most likely
  std::uint64_t seed = 1;
};

/// Continues a byte text, a byte at a time. `logits_of` maps ids [1, t] to
/// logits [1, t, 256]. Returns the prompt and what follows it; bytes that are
/// not printable ASCII (or a line break) come as '?'.
std::string sample_text(
  const std::function<at::Tensor(const at::Tensor& ids)>& logits_of,
  const std::string& prompt, const sample_options& options);

}  // namespace troupe
