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

/// A run that is made twice: on the CPU, and on a faked accelerator with its
/// steps recorded and launched.
struct graph_run {
  explicit graph_run(const small_case& of);

  struct counts {
    int recordings = 0, launches = 0;
  };
  /// What the watcher saw, by step.
  struct events {
    std::map<std::int64_t, std::vector<step_event>> steps;
    std::map<std::int64_t, int> others;
  };
  struct outcome {
    parameter_list parameters;
    std::vector<double> losses, norms, scales, others;
    std::vector<std::int64_t> tokens;
    int skipped = 0;  // updates
    events seen;
  };

  /// Both give the same bits, on the device without a race; so many graphs.
  events compare(const counts& expected);
  const outcome& with_graphs() const { return launched; }
  /// What was warned of in `compare`.
  const std::string& logged() const { return warnings; }
  /// The n-th loss, from 0, that is recorded fails.
  void fail_recorded_forward(int n);

  outcome run(const std::shared_ptr<faked_accelerator>& device) const;

  small_case what;
  trainer_options options;
  std::int64_t steps = 5;
  std::int64_t skip = -1;  // that step skips its update
  source_pointer source = small_text();
  /// Before each step; what it returns is compared.
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
