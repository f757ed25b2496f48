#pragma once

#include <cstdint>
#include <string>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// An op's name in errors and texts, in PyTorch's spelling if it has one: 0F3,
/// 0SEND_F3, 1RECV_F3, 0UNSHARD, 0RESHARD, 0REDUCE_GRAD, 0NORM, 0UPDATE; with
/// the slice (0F3.1) and the copy (0F3@1) if there are any.
std::string to_text(const plan& plan, const plan_op& what);
std::string to_text(const plan& plan, std::uint32_t op);

}  // namespace troupe
