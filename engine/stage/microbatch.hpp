#pragma once

#include <cstdint>
#include <functional>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The loader's data for one microbatch: `inputs` for the first stage,
/// `targets` for the last, `arguments` for any stage that reads them.
struct microbatch_data {
  tensor_list inputs;
  tensor_list targets;
  tensor_arguments arguments;
  std::int64_t tokens = 0;  // counted for tokens per second
};

/// A microbatch with each tensor replaced by `bring` of it.
microbatch_data brought(
  const microbatch_data& data,
  const std::function<at::Tensor(const at::Tensor&)>& bring);

/// All tensors of a microbatch: inputs, targets, arguments by name.
tensor_list tensors_of(const microbatch_data& data);

/// A part of a step's work, the key of stages' contexts.
struct microbatch_key {
  std::int32_t microbatch = 0;
  std::int16_t slice = 0;

  friend auto operator<=>(const microbatch_key&,
                          const microbatch_key&) = default;
};

}  // namespace troupe
