#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/load_accelerator.hpp"

namespace troupe {

/// The first GPU, as a trainer's devices; none unless it is wanted. Call it
/// before any other use of LibTorch. Throws `error` (device), which says what
/// is missing.
inline std::vector<std::shared_ptr<accelerator>> one_gpu(bool wanted) {
  if (!wanted)
    return {};
  const auto& found = load_accelerators();
  if (!found)
    fail(error_code::device, "--cuda: {}", found.why_not);
  return {found.library->open(0)};
}

/// Runs a benchmark's main; returns 1, with a sentence, if it can't run.
template <class Work>
int run_benchmark(const Work& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& reason) {
    fmt::print(stderr, "error: {}\n", reason.what());
    return 1;
  }
}

}  // namespace troupe
