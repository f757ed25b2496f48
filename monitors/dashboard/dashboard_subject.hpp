#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "troupe/monitors/dashboard/run_description.hpp"

namespace troupe {

struct plan;
struct run_health;

/// The run that a dashboard shows.
struct dashboard_subject {
  std::shared_ptr<const troupe::plan> plan{};  // of the first step
  std::int32_t data_parallel = 1;
  std::int64_t steps = 0;              // that will be trained; 0: unknown
  std::int64_t statistics_every = 10;  // steps between heat maps
  run_description description{};
  bool clips = false;                    // gradients, by their norm
  std::function<run_health()> health{};  // any thread; may be empty
};

}  // namespace troupe
