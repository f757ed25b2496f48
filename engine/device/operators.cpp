#include "troupe/engine/device/operators.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <mutex>

namespace troupe {

void define_operators(const char* name, void (*define)(torch::Library&)) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (c10::Dispatcher::singleton().findSchema({name, ""}))
    return;
  // Never freed: threads may compute while static objects are destroyed.
  auto* library = new torch::Library(torch::Library::FRAGMENT, "troupe",
                                     std::nullopt, __FILE__, __LINE__);
  define(*library);
}

}  // namespace troupe
