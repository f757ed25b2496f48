#pragma once

#include <memory>

#include "troupe/engine/device/device_kernels.hpp"

namespace troupe {

std::unique_ptr<device_kernels> make_kernels(int device);

}  // namespace troupe
