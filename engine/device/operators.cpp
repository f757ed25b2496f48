#include "troupe/engine/device/operators.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <vector>

namespace troupe {

void define_operators(const char* name, void (*define)(torch::Library&)) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (c10::Dispatcher::singleton().findSchema({name, ""}))
    return;
  // Never freed: threads may compute while static objects are destroyed.
  static auto& kept = *new std::vector<std::unique_ptr<torch::Library>>;
  kept.push_back(std::make_unique<torch::Library>(
    torch::Library::FRAGMENT, "troupe", std::nullopt, __FILE__, __LINE__));
  define(*kept.back());
}

}  // namespace troupe
