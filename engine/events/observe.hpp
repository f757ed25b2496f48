#pragma once

#include <torch/nn/module.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// Names modules as the unsplit model does, whatever stage they live in.
using module_names = std::unordered_map<const torch::nn::Module*, std::string>;

/// Receives what `observe` and `report_metric` publish on this thread while a
/// stage runs a forward. Not thread-safe; one a running op.
class observer {
 public:
  virtual ~observer() = default;
  virtual bool wants_tensors() const = 0;
  virtual void tensor(const torch::nn::Module& module,
                      const at::Tensor& output) = 0;
  virtual void metric(const std::string& name, double value, double count) = 0;
};

/// The observer of the calling thread, or null: then nothing is published.
observer*& current_observer();

/// Sets the calling thread's observer for a scope.
class observer_scope {
 public:
  explicit observer_scope(observer* next)
    : previous_(std::exchange(current_observer(), next)) {}
  ~observer_scope() { current_observer() = previous_; }
  observer_scope(const observer_scope&) = delete;
  observer_scope& operator=(const observer_scope&) = delete;

 private:
  observer* previous_;
};

/// Runs `module(inputs...)` and publishes its output, and in the backward
/// pass the output's gradient, under the module's dotted name. Without a
/// subscription it costs one predictable branch. To be called inside a
/// `stage_module`'s forward, in place of `module->forward(inputs...)`.
template <class Module, class... Inputs>
at::Tensor observe(Module& module, Inputs&&... inputs) {
  auto output = module->forward(std::forward<Inputs>(inputs)...);
  if (auto* seen_by = current_observer(); seen_by && seen_by->wants_tensors())
    seen_by->tensor(*module, output);
  return output;
}

/// Adds to a metric of the model's own; reported by name at the step's end as
/// the count-weighted mean over microbatches, stages and data ranks.
void report_metric(const std::string& name, double value, double count = 1);

}  // namespace troupe
