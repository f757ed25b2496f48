#pragma once

namespace torch {
class Library;
}

namespace troupe {

/// Defines operators of LibTorch's dispatcher in the namespace "troupe", so
/// that whatever sees operators there (profilers, the fake accelerators of
/// tests) sees kernels of troupe's. Does nothing if the operator of that name,
/// one of them, is defined: another library of the process may hold a copy of
/// the code. Any thread.
void define_operators(const char* name, void (*define)(torch::Library&));

}  // namespace troupe
