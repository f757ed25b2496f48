#pragma once

#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/load_accelerator.hpp"

namespace troupe {

/// The library of accelerators; without one, skips the test and says why. To be
/// called first (see load_accelerators).
inline accelerator_library& gpu_library() {
  const auto& library = load_accelerators();
  if (!library)
    SKIP(library.why_not);
  return *library.library;
}

/// The first device.
inline std::unique_ptr<accelerator> first_gpu() {
  return gpu_library().open(0);
}

}  // namespace troupe
