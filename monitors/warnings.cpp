#include "troupe/monitors/warnings.hpp"

#include <spdlog/spdlog.h>

namespace troupe {

monitor warning_monitor() {
  monitor made;
  made.name = "warnings";
  made.wants.steps = false;
  made.see = [](const event& what) {
    if (const auto* slow = std::get_if<slow_load_event>(&what))
      spdlog::warn(
        "step {}: loading microbatch {} of replica {} took {:.3f} "
        "s; the pipeline may have waited for it",
        slow->source.step, slow->source.microbatch, slow->source.data_rank,
        slow->seconds);
  };
  return made;
}

}  // namespace troupe
