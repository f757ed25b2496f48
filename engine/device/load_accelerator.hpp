#pragma once

#include <filesystem>
#include <string>

namespace troupe {

class accelerator_library;

/// A library of accelerators, or why there is none, as a sentence for the
/// user ("no NVIDIA driver: libcuda.so.1: cannot open shared object file").
struct accelerator_lookup {
  accelerator_library* library = nullptr;
  std::string why_not{};

  explicit operator bool() const { return library != nullptr; }
};

/// Loads what this process can use, once; later calls tell the same. Where
/// there is no driver nothing is loaded, which costs a CPU's run no memory.
/// Called before any other use of LibTorch, by the main thread: an operator
/// that asks whether there is CUDA settles that there is none for good.
const accelerator_lookup& load_accelerators();

/// Loads that library, whatever the machine. It stays loaded.
accelerator_lookup load_accelerators(const std::filesystem::path& file);

/// The library that the first one loads: $TROUPE_CUDA_PLUGIN, else
/// libtroupe_cuda.so beside the program, or in ../lib or ../../lib from there;
/// empty if there is none.
std::filesystem::path accelerator_file();

/// What a library of accelerators exports as `troupe_accelerators`. One of
/// another `interface` leaves the lookup's library empty.
using accelerator_factory = void(int interface, accelerator_lookup& result);
constexpr int accelerator_interface = 2;
constexpr const char* accelerator_symbol = "troupe_accelerators";

}  // namespace troupe
