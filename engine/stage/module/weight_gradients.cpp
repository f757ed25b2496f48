#include "troupe/engine/stage/module/weight_gradients.hpp"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include <utility>

namespace troupe {

namespace {

constexpr auto store_key = "weight_gradients";

}  // namespace

weight_gradients::pointer& current_store() {
  static thread_local weight_gradients::pointer store;
  return store;
}

void weight_gradients::note(const tensor_list& parameters) {
  for (const auto& each : parameters)
    shares_parameters_ |=
      !parameters_.insert(each.unsafeGetTensorImpl()).second;
}

void weight_gradients::add(std::function<void()> work) {
  if (!deferring_)
    return work();
  nodes_.insert(torch::autograd::get_current_node().get());
  deferred_.push_back(std::move(work));
}

void weight_gradients::run() {
  deferring_ = false;
  for (auto& work : std::exchange(deferred_, {}))
    std::exchange(work, nullptr)();
}

void note_store(torch::autograd::AutogradContext& context,
                const tensor_list& parameters) {
  auto store = current_store();
  if (!store)
    return;
  store->note(parameters);
  context.saved_data[store_key] = at::IValue::make_capsule(std::move(store));
}

void add_weight_gradients(torch::autograd::AutogradContext& context,
                          std::function<void()> work) {
  const auto store = context.saved_data.find(store_key);
  if (store == context.saved_data.end())
    return work();
  c10::static_intrusive_pointer_cast<weight_gradients>(
    store->second.toCapsule())
    ->add(std::move(work));
}

void accumulate_gradient(const at::Tensor& parameter, at::Tensor gradient) {
  if (auto& sum = parameter.mutable_grad(); sum.defined())
    sum.add_(gradient);
  else
    sum = std::move(gradient);
}

}  // namespace troupe
