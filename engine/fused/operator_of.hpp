#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "troupe/engine/device/operators.hpp"

namespace troupe::fused {

/// An operator of LibTorch's dispatcher, which `define` defines if it isn't.
template <class Function>
c10::TypedOperatorHandle<Function> operator_of(
  const char* name, void (*define)(torch::Library&)) {
  define_operators(name, define);
  return c10::Dispatcher::singleton()
    .findSchemaOrThrow(name, "")
    .typed<Function>();
}

}  // namespace troupe::fused
