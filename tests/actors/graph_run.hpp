#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "small_model.hpp"
#include "troupe/engine/events/monitor.hpp"

namespace troupe::testing {

class faked_accelerator;

parameter_list copies_of(const parameter_list& parameters);

/// A run that is executed twice: on the CPU, and on a faked accelerator that
/// records its steps and launches them.
struct graph_run {
  explicit graph_run(const small_case& of);

  struct counts {
    int recordings = 0, launches = 0;
  };
  /// The events that the watcher received, by step.
  struct events {
    std::map<std::int64_t, std::vector<step_event>> steps;
    std::map<std::int64_t, int> others;
  };
  struct outcome {
    parameter_list parameters;
    std::vector<double> losses, norms, scales, others;
    std::vector<std::int64_t> tokens;
    int skipped = 0;  // updates
    events received;
  };

  /// Checks that both executions give the same bits, the device without a race,
  /// and that so many graphs were recorded and launched.
  events compare(const counts& expected);
  const outcome& with_graphs() const { return launched; }
  /// The warnings of `compare`.
  const std::string& logged() const { return warnings; }
  /// Makes the n-th recorded loss, from 0, fail.
  void fail_recorded_forward(int n);

  outcome run(const std::shared_ptr<faked_accelerator>& device) const;

  small_case what;
  trainer_options options;
  std::int64_t steps = 5;
  std::int64_t skip = -1;  // the step that skips its update
  source_pointer source = small_text();
  /// Called before each step; both executions must return the same.
  std::function<double(trainer&, std::int64_t)> before;
  monitor watcher;  // attached if it has a name
  bool may_race = false;
  outcome launched;
  std::string warnings;
};

inline void compare_graphs(const small_case& what) {
  graph_run{what}.compare({.recordings = 1, .launches = 4});
}

}  // namespace troupe::testing
