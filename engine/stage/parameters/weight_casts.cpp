#include "troupe/engine/stage/parameters/weight_casts.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace troupe {

namespace {

constexpr auto casts_key = "weight_casts";

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0
                               : static_cast<std::uint32_t>(tensor._version());
}

}  // namespace

weight_casts::pointer& current_casts() {
  static thread_local weight_casts::pointer casts;
  return casts;
}

at::Tensor weight_casts::of(const at::Tensor& parameter, at::ScalarType type) {
  if (parameter.scalar_type() == type)
    return parameter;
  const auto* storage = parameter.storage().unsafeGetStorageImpl();
  const auto version = version_of(parameter);
  const auto found = casts_.find(parameter.unsafeGetTensorImpl());
  if (found != casts_.end()
      && found->second.storage._unsafe_get_target() == storage
      && found->second.version == version
      && found->second.value.scalar_type() == type
      && found->second.value.sizes() == parameter.sizes())
    return found->second.value;
  const at::NoGradGuard no_grad;
  if (found != casts_.end())
    casts_.erase(found);  // its memory first
  auto value = parameter.detach().to(type);
  casts_.insert_or_assign(
    parameter.unsafeGetTensorImpl(),
    cast{parameter.storage().getWeakStorageImpl(), version, value});
  return value;
}

std::int64_t weight_casts::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [parameter, each] : casts_)
    sum += static_cast<std::int64_t>(each.value.nbytes());
  return sum;
}

at::Tensor cast_of(const at::Tensor& parameter, at::ScalarType type) {
  return current_casts() ? current_casts()->of(parameter, type)
                         : parameter.to(type);
}

void note_casts(torch::autograd::AutogradContext& context) {
  if (current_casts())
    context.saved_data[casts_key] = at::IValue::make_capsule(current_casts());
}

at::Tensor cast_of(const torch::autograd::AutogradContext& context,
                   const at::Tensor& parameter, at::ScalarType type) {
  const auto casts = context.saved_data.find(casts_key);
  return casts == context.saved_data.end()
           ? parameter.to(type)
           : c10::static_intrusive_pointer_cast<weight_casts>(
               casts->second.toCapsule())
               ->of(parameter, type);
}

}  // namespace troupe
