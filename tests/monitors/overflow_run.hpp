#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fixture_g.hpp"
#include "troupe/base/error.hpp"
#include "troupe/monitors/tensors/overflow.hpp"

namespace troupe::testing {

using step_readings = std::map<std::int64_t, step_reading>;  // by step

/// The output of the overflow monitor in a run.
struct overflow_run {
  std::string printed;
  std::vector<alert> alerts;
  std::string error_text;
  /// How each step was read of which the monitor saw tensors.
  step_readings readings;

  monitor watch(overflow_options options = {}) {
    options.print = [this](const std::string& text) { printed += text; };
    auto watcher = overflow_monitor(
      options,
      callback_sink({}, [this](const alert& a) { alerts.push_back(a); }));
    watcher.see = [this, see = std::move(watcher.see)](const event& what) {
      if (const auto* op = std::get_if<tensors_event>(&what))
        readings[op->source.step] = op->reading;
      see(what);
    };
    return watcher;
  }
  void finish(trainer& run) {
    try {
      run.finish_monitors();
    } catch (const error& reason) {
      error_text = reason.what();
    }
  }
};

/// Rows whose batch of that number has a bad value.
inline source_pointer rows_with(std::int64_t batch, float value) {
  return make_source([=](std::int64_t k) {
    auto rows = rows_g();
    if (k == batch)
      rows[2][1] = value;
    return microbatch_data{{rows}, {}, {}, 4};
  });
}

/// A report's frames from the beginning of a batch on, or all if that is not
/// among them.
inline std::string frames_of_batch(const std::string& printed,
                                   std::int64_t batch) {
  const auto begin =
    printed.find("*** Starting batch number=" + std::to_string(batch) + " ***");
  if (begin != std::string::npos)
    return printed.substr(begin);
  const auto header = printed.find("abs min  abs max  metadata");
  return header == std::string::npos ? printed : printed.substr(header);
}

}  // namespace troupe::testing
