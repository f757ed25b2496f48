#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace troupe::testing {

/// Calls `take` with each tensor in an operator's input or output: a tensor, or
/// a list that contains tensors.
template <class Take>
void each_tensor(const c10::IValue& value, const Take& take) {
  if (value.isTensor())
    take(value.toTensor());
  else if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorList())
      take(tensor);
  else if (value.isList())
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor())
        take(item.toTensor());
}

}  // namespace troupe::testing
