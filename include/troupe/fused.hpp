#pragma once

// Functions that layers can use instead of several of LibTorch's.
#include "troupe/engine/fused/activation.hpp"
#include "troupe/engine/fused/attention.hpp"
#include "troupe/engine/fused/norm.hpp"
#include "troupe/engine/fused/rotary.hpp"
#include "troupe/engine/models/layers/cross_entropy_in_parts.hpp"
#include "troupe_headers.hpp"
