#pragma once

#include <nlohmann/json.hpp>

#include "troupe/monitors/live/replanner.hpp"

namespace troupe::cli {

/// Answers `troupe replan`: `{"schedule": NAME}`, `{"text": FORM, "source":
/// NAME}` or `{"search": true}`, with `{"sizes": ENTRIES, "memory_limit":
/// BYTES}` for a search -> `{"schedule", "taken", "now", "then",
/// "uncertainty"}`: times of a step in ms, measured and predicted, null before
/// the first step. `current`: the plan that
/// the run executes. Throws `error`.
nlohmann::json replan(const replanner& orders, const plan& current,
                      const nlohmann::json& request);

}  // namespace troupe::cli
