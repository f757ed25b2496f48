#include "troupe/monitors/live/rank_load.hpp"

#include <algorithm>
#include <numeric>

#include "troupe/monitors/monitor_of.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe {

namespace {

constexpr std::ptrdiff_t most_averaged = 10;

}  // namespace

std::vector<std::optional<double>> rank_load::shares(std::size_t ranks) const {
  std::vector<std::optional<double>> all(ranks);
  const std::scoped_lock lock(mutex_);
  for (const auto& [number, steps] : last_)
    if (number < ranks)
      all[number] = std::accumulate(steps.begin(), steps.end(), 0.0)
                    / static_cast<double>(steps.size());
  return all;
}

void rank_load::see(const step_event& step, const std::vector<ops_event>& ops) {
  const auto whole = std::max<std::int64_t>(1, step.end - step.begin);
  const std::scoped_lock lock(mutex_);
  for (const auto& each : ops) {
    const auto& place = each.source;
    auto& steps =
      last_[static_cast<std::size_t>(place.data_rank * ranks_ + place.rank)];
    steps.push_back(static_cast<double>(busy_time(each.ops))
                    / static_cast<double>(whole));
    if (std::ssize(steps) > most_averaged)
      steps.erase(steps.begin());
  }
}

monitor load_monitor(std::shared_ptr<rank_load> load) {
  return monitor_of_steps(
    "load", [load = std::move(load)](const auto& step, const auto& ops) {
      if (step.source.phase == phase::training)
        load->see(step, ops);
    });
}

}  // namespace troupe
