#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The items (tokens) of a microbatch over which a loss is a mean, as counted
/// before the loss is computed.
struct loss_items {
  double own = 0;  // of all slices
  /// fp64 [slices]: the update's items per replica, divided by the slice's own;
  /// infinity for a slice without any. Empty if the update has none.
  at::Tensor divisors;
};

/// The loader's data for one microbatch: `inputs` for the first stage,
/// `targets` for the last, `arguments` for any stage that reads them.
struct microbatch_data {
  tensor_list inputs{};
  tensor_list targets{};
  tensor_arguments arguments{};
  std::int64_t tokens = 0;  // counted for tokens per second
  /// The items by name of a loss, in training (loss_items.hpp adds them). A
  /// loss without an entry weighs all microbatches equally.
  std::map<std::string, loss_items> items = {};
};

/// A microbatch whose tensors are the results of `function` for each tensor of
/// another one.
microbatch_data transformed(
  const microbatch_data& data,
  const std::function<at::Tensor(const at::Tensor&)>& function);

/// All tensors of a microbatch: inputs, targets, arguments by name, divisors by
/// loss.
tensor_list tensors_of(const microbatch_data& data);

/// A part of a step's work, the key of stages' contexts.
struct microbatch_key {
  std::int32_t microbatch = 0;
  std::int16_t slice = 0;

  friend auto operator<=>(const microbatch_key&,
                          const microbatch_key&) = default;
};

}  // namespace troupe
