#pragma once

#include <filesystem>
#include <string>

namespace troupe {

class accelerator_library;

/// A library of accelerators, or the reason that there is none, as a sentence
/// ("no NVIDIA driver: libcuda.so.1: cannot open shared object file").
struct accelerator_lookup {
  accelerator_library* library = nullptr;
  std::string why_not{};

  explicit operator bool() const { return library != nullptr; }
};

/// Loads what this process can use, once; later calls return the same. Loads
/// nothing without a driver, so a CPU run pays no memory for it. Call it before
/// any other use of LibTorch, on the main thread: an operator that asks for
/// CUDA before then finds permanently that there is none.
const accelerator_lookup& load_accelerators();

/// Loads that library, on any machine. It stays loaded.
accelerator_lookup load_accelerators(const std::filesystem::path& file);

/// The library that the first overload loads: $TROUPE_CUDA_PLUGIN, else
/// libtroupe_cuda.so beside the program, or in ../lib or ../../lib from there;
/// empty if there is none.
std::filesystem::path accelerator_file();

/// The function that a library of accelerators exports as
/// `troupe_accelerators`. It leaves the library empty if `interface`, the sum
/// of the headers that the program was compiled with, differs from its own.
using accelerator_factory = void(int interface, accelerator_lookup& result);
constexpr const char* accelerator_symbol = "troupe_accelerators";

}  // namespace troupe
