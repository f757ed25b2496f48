#pragma once

#include <cstdint>
#include <optional>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// How the next token is chosen. `top_k`, then `top_p`, leave out what is less
/// likely (nucleus sampling: Holtzman et al., 2020).
struct sampling_options {
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 0;    // of so many, the most likely ones; 0: of all
  double top_p = 1;          // of the fewest whose probabilities sum up to this
  std::uint64_t seed = 1;
  /// Draws of equal seeds and streams are the same. None: that of the request's
  /// place among those of a call, from 0.
  std::optional<std::uint64_t> stream = {};

  friend bool operator==(const sampling_options&,
                         const sampling_options&) = default;
};

/// Throws `invalid_argument` for a temperature that is negative or not finite,
/// a negative top_k, and a top_p outside (0, 1].
void require_legal(const sampling_options& options);

/// A token for logits [vocabulary], in host memory: the n-th that a prompt gets
/// (`turn`, from 0). Depends on nothing but these arguments. Of equally likely
/// tokens the smaller ids come first. Throws `invalid_data` if a logit is not a
/// number.
std::int64_t next_token(const at::Tensor& logits,
                        const sampling_options& options, std::int64_t turn);

}  // namespace troupe
