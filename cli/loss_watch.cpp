#include "troupe/cli/loss_watch.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>

#include "troupe/base/printable.hpp"

namespace troupe::cli {

void loss_watch::see(const step_event& step) {
  for (const auto& loss : step.losses) {
    if (std::isfinite(loss.value))
      continue;
    if (count_++ == 0) {
      first_ = step.source.step;
      spdlog::warn(
        "step {}: the {} is {}; the run continues; --halt-on-nan would stop it",
        first_, loss.name, printable(loss.value));
    }
    return;
  }
}

void loss_watch::conclude(const std::string& saved) const {
  if (count_ == 0)
    return;
  const auto where =
    saved.empty() ? std::string{} : fmt::format(", as saved in {},", saved);
  spdlog::error(
    "the loss was not finite in {} steps, first in step {}: the trained "
    "parameters{} are likely useless; lower --lr, or give --clip; "
    "--halt-on-nan stops a run at the first such loss, and --monitor overflow "
    "names the tensor where it arose",
    count_, first_, where);
}

}  // namespace troupe::cli
