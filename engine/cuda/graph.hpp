#pragma once

#include <functional>
#include <memory>

#include "troupe/engine/cuda/stream.hpp"
#include "troupe/engine/device/device_graph.hpp"

namespace troupe {

/// A LibTorch graph, whose tensors are in memory of its own; see
/// accelerator::record_graph.
std::unique_ptr<device_graph> record_graph(cuda_stream& origin,
                                           const std::function<void()>& work);

}  // namespace troupe
