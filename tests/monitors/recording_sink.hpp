#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/monitors/sink.hpp"

namespace troupe::testing {

/// Records what monitors write.
struct recording_sink final : sink {
  void write(const metrics_record& record) override {
    const std::scoped_lock lock(mutex);
    for (const auto& [name, value] : record.values)
      steps[record.source.step][name] = value;
  }
  void write(const alert& what) override {
    const std::scoped_lock lock(mutex);
    alerts.push_back(what);
  }

  std::mutex mutex;
  std::map<std::int64_t, std::map<std::string, double>> steps;
  std::vector<alert> alerts;
};

inline step_event step_with(std::int64_t number, double loss,
                            double gradient_norm = 1) {
  step_event step;
  step.source.step = number;
  step.losses = {{"loss", loss, 1}};
  step.gradient_norm = gradient_norm;
  step.begin = number * 1'000'000'000;
  step.end = step.begin + 1'000'000'000;
  return step;
}

}  // namespace troupe::testing
