#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "troupe/engine/device/operators.hpp"

namespace troupe::fused {

/// Adds a function on CPUs without an autograd graph. Calls go to it directly:
/// LibTorch's fallback for autograd would make a list of the arguments first.
template <class Function>
void add_operator(torch::Library& library, const char* name, const char* schema,
                  Function* function) {
  library.def(schema);
  library.impl(name, torch::dispatch(c10::DispatchKey::CPU, function));
  library.impl(name, torch::dispatch(c10::DispatchKey::Autograd,
                                     torch::CppFunction::makeFallthrough()));
}

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
