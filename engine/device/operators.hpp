#pragma once

#include <torch/library.h>

namespace troupe {

/// Defines operators of LibTorch's dispatcher in the namespace "troupe", so
/// that whatever sees operators there (profilers, the fake accelerators of
/// tests) sees kernels of troupe's. Does nothing if the operator of that name,
/// one of them, is defined: another library of the process may hold a copy of
/// the code. Any thread.
void define_operators(const char* name, void (*define)(torch::Library&));

/// For `define_operators`: adds a function of tensors on that kind of device,
/// without an autograd graph. Calls go to it directly: LibTorch's fallback for
/// autograd would make a list of the arguments first.
template <class Function>
void add_operator(torch::Library& library, const char* name, const char* schema,
                  Function* function,
                  c10::DispatchKey key = c10::DispatchKey::CPU) {
  library.def(schema);
  library.impl(name, torch::dispatch(key, function));
  library.impl(name, torch::dispatch(c10::DispatchKey::Autograd,
                                     torch::CppFunction::makeFallthrough()));
}

}  // namespace troupe
