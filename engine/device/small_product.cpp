#include "troupe/engine/device/small_product.hpp"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>

#include "troupe/engine/device/operators.hpp"
#include "troupe/engine/device/small_product_kernels.hpp"

namespace troupe {

namespace {

/// Beyond that, libraries are as fast, or use all threads.
std::int64_t most_multiplications() {
  return at::get_num_threads() == 1 ? 1 << 23 : 1 << 20;
}

at::Tensor linear_operator(const at::Tensor& x, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias) {
  const auto inputs = weight.size(1), outputs = weight.size(0);
  auto sizes = x.sizes().vec();
  sizes.back() = outputs;
  auto y = at::empty(sizes, x.options());
  const auto scratch = c10::GetCPUAllocator()->allocate(x.nbytes());
  small_products()->linear(
    x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
    bias ? bias->const_data_ptr<float>() : nullptr, y.data_ptr<float>(),
    x.numel() / inputs, inputs, outputs, static_cast<float*>(scratch.get()));
  return y;
}

at::Tensor product_operator(const at::Tensor& a, const at::Tensor& b) {
  auto c = at::empty({a.size(0), b.size(1)}, a.options());
  small_products()->product(a.const_data_ptr<float>(),
                            b.const_data_ptr<float>(), c.data_ptr<float>(),
                            a.size(0), a.size(1), b.size(1));
  return c;
}

void add_product_operator(at::Tensor sum, const at::Tensor& transposed,
                          const at::Tensor& b) {
  small_products()->add_transposed(
    transposed.const_data_ptr<float>(), b.const_data_ptr<float>(),
    sum.data_ptr<float>(), sum.size(0), b.size(0), b.size(1));
}

void define(torch::Library& library) {
  add_operator(library, "small_linear",
               "small_linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
               linear_operator);
  add_operator(library, "small_product",
               "small_product(Tensor a, Tensor b) -> Tensor", product_operator);
  add_operator(
    library, "add_small_product",
    "add_small_product(Tensor(a!) sum, Tensor transposed, Tensor b) -> ()",
    add_product_operator);
}

template <class Signature>
c10::TypedOperatorHandle<Signature> found(const char* name) {
  define_operators("troupe::small_linear", define);
  return c10::Dispatcher::singleton()
    .findSchemaOrThrow(name, "")
    .typed<Signature>();
}

bool is_dense(const at::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == at::kFloat
         && x.layout() == at::kStrided && x.is_contiguous();
}

/// `whole`: a multiple of 16; `half`: of 8.
bool takes(std::int64_t whole, std::int64_t half, std::int64_t inner) {
  static const bool has_kernels = small_products() != nullptr;
  return has_kernels && whole > 0 && half > 0 && inner > 0 && whole % 16 == 0
         && half % 8 == 0 && whole * half <= most_multiplications() / inner
         && !at::autocast::is_autocast_enabled(at::kCPU);
}

}  // namespace

at::Tensor small_linear(const at::Tensor& x, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias) {
  const auto inputs = weight.size(1);
  if (!takes(x.numel() / inputs, weight.size(0), inputs) || inputs % 8 != 0
      || !is_dense(x) || !is_dense(weight)
      || (bias
          && (!is_dense(*bias) || bias->dim() != 1
              || bias->size(0) != weight.size(0))))
    return {};
  static const auto call =
    found<decltype(linear_operator)>("troupe::small_linear");
  return call.call(x, weight, bias);
}

at::Tensor small_product(const at::Tensor& a, const at::Tensor& b) {
  if (!takes(b.size(1), a.size(0), a.size(1)) || !is_dense(b))
    return {};
  if (!is_dense(a)) {
    auto sum = is_dense(a.t()) ? at::zeros({a.size(0), b.size(1)}, a.options())
                               : at::Tensor();
    return sum.defined() && add_small_product(sum, a, b) ? sum : at::Tensor();
  }
  static const auto call =
    found<decltype(product_operator)>("troupe::small_product");
  return call.call(a, b);
}

bool add_small_product(const at::Tensor& sum, const at::Tensor& a,
                       const at::Tensor& b) {
  if (!takes(b.size(1), a.size(0), a.size(1)) || !is_dense(sum) || !is_dense(b)
      || b.size(0) != a.size(1) || sum.size(0) != a.size(0)
      || sum.size(1) != b.size(1))
    return false;
  const auto transposed = a.t();
  if (!is_dense(transposed))
    return false;
  static const auto call =
    found<decltype(add_product_operator)>("troupe::add_small_product");
  call.call(sum, transposed, b);
  return true;
}

}  // namespace troupe
