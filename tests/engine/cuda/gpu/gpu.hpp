#pragma once

#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/load_accelerator.hpp"

namespace troupe {

/// The library of accelerators; where there is none the test is skipped, and
/// says why. To be called first: see load_accelerators.
inline accelerator_library& gpu_library() {
  const auto& found = load_accelerators();
  if (!found)
    SKIP(found.why_not);
  return *found.library;
}

/// The first device.
inline std::unique_ptr<accelerator> first_gpu() {
  return gpu_library().open(0);
}

}  // namespace troupe
