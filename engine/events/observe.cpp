#include "troupe/engine/events/observe.hpp"

#include "troupe/engine/events/observer.hpp"

namespace troupe {

observer*& current_observer() {
  thread_local observer* current = nullptr;
  return current;
}

void report_metric(const std::string& name, double value, double count) {
  if (auto* current = current_observer())
    current->metric(name, value, count);
}

observer* watching_observer() {
  auto* current = current_observer();
  return current && current->watches() ? current : nullptr;
}

bool is_observed() {
  return watching_observer() != nullptr;
}

void observe_call(const torch::nn::Module& module,
                  const observed_values& inputs,
                  const observed_values& outputs) {
  if (auto* current = current_observer())
    current->called(module, inputs, outputs);
}

}  // namespace troupe
