#pragma once

#include <string>
#include <vector>

#include "fixture_g.hpp"
#include "troupe/base/error.hpp"
#include "troupe/monitors/tensors/overflow.hpp"

namespace troupe::testing {

/// The output of the overflow monitor in a run.
struct overflow_run {
  std::string printed;
  std::vector<alert> alerts;
  std::string error_text;

  monitor watch(overflow_options options = {}) {
    options.print = [this](const std::string& text) { printed += text; };
    return overflow_monitor(options, callback_sink({}, [this](const alert& a) {
                              alerts.push_back(a);
                            }));
  }
  void finish(trainer& run) {
    try {
      run.finish_monitors();
    } catch (const error& reason) {
      error_text = reason.what();
    }
  }
};

}  // namespace troupe::testing
