#pragma once

#include <cstdint>

namespace troupe::fused {

/// x P(X <= x) of a normal X (GELU, Hendrycks and Gimpel, 2016), its
/// approximation by tanh, and x sigmoid(x).
enum class activation : std::uint8_t { gelu, gelu_tanh, silu };

}  // namespace troupe::fused
