#pragma once

#include <functional>

#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// A microbatch with `bring` of each of its tensors in the tensor's place.
microbatch_data brought(
  const microbatch_data& data,
  const std::function<at::Tensor(const at::Tensor&)>& bring);

/// All tensors of a microbatch: inputs, targets, arguments by name.
tensor_list tensors_of(const microbatch_data& data);

}  // namespace troupe
