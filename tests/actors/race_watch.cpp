#include "race_watch.hpp"

#include <ATen/record_function.h>

#include <atomic>
#include <memory>

#include "each_tensor.hpp"

namespace troupe::testing {

namespace {

std::atomic<race_watch*> active{nullptr};
std::atomic<int> watchers{0};
at::CallbackHandle callback = 0;

/// An operator's inputs and their versions before it. An input whose version is
/// the same afterwards was not written, but a view of it may have been
/// returned.
struct call_inputs final : at::ObserverContext {
  std::vector<std::pair<at::Tensor, std::uint32_t>> tensors;
};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call) {
  auto context = std::make_unique<call_inputs>();
  for (const auto& input : call.inputs())
    each_tensor(input, [&](const at::Tensor& tensor) {
      if (tensor.defined())
        context->tensors.emplace_back(
          tensor, tensor.is_inference() ? 0 : tensor._version());
    });
  return context;
}

void on_end(const at::RecordFunction& call, at::ObserverContext* context) {
  auto* watch = active.load();
  if (!watch)
    return;
  std::vector<at::Tensor> reads, writes;
  for (const auto& [tensor, version] :
       static_cast<call_inputs*>(context)->tensors)
    (tensor._version() == version ? reads : writes).push_back(tensor);
  const auto is_view = [&](const at::Tensor& output) {
    return std::ranges::any_of(reads, [&](const at::Tensor& of) {
      return of.has_storage() && output.has_storage()
             && of.storage().is_alias_of(output.storage());
    });
  };
  for (const auto& output : call.outputs())
    each_tensor(output, [&](const at::Tensor& tensor) {
      if (tensor.defined() && !is_view(tensor))
        writes.push_back(tensor);
    });
  watch->ran(call.name(), reads, writes);
}

}  // namespace

watched_operators::watched_operators() {
  if (watchers++ > 0)
    return;
  active = new race_watch;
  callback = at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end)
                                     .needsInputs(true)
                                     .needsOutputs(true)
                                     .scopes({at::RecordScope::FUNCTION}));
}

watched_operators::~watched_operators() {
  if (--watchers > 0)
    return;
  at::removeCallback(callback);
  delete active.exchange(nullptr);
}

race_watch* active_watch() {
  return active;
}

}  // namespace troupe::testing
