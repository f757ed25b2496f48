#pragma once

#include <cstdint>

#include "troupe/engine/generation/generation.hpp"

namespace troupe {

/// A token for logits [vocabulary], in host memory: the n-th that a prompt gets
/// (`turn`, from 0). Depends on nothing but these arguments. Of equally likely
/// tokens the smaller ids come first. Throws `invalid_data` if a logit is not a
/// number.
std::int64_t next_token(const at::Tensor& logits,
                        const sampling_options& options, std::int64_t turn);

}  // namespace troupe
