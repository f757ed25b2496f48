#include "troupe/engine/device/matrix_product.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <string_view>

#include "troupe/engine/device/instruction_set.hpp"
#include "troupe/engine/device/small_product.hpp"

namespace troupe {

namespace {

/// A linear layer by oneDNN, of dense tensors: what PyTorch's compiler calls.
using linear_op = at::Tensor(const at::Tensor& x, const at::Tensor& weight,
                             const std::optional<at::Tensor>& bias,
                             std::string_view following,
                             c10::List<std::optional<at::Scalar>> scalars,
                             std::optional<std::string_view> algorithm);

bool processor_is_faster_by_onednn() {
#ifdef __x86_64__
  return !__builtin_cpu_is("intel")
         && usable_instructions() == instruction_set::avx512;
#else
  return false;  // where ATen knows it itself
#endif
}

/// Null where ATen's products are to be used.
const c10::TypedOperatorHandle<linear_op>* onednn_linear() {
  static const auto found =
    []() -> std::optional<c10::TypedOperatorHandle<linear_op>> {
    if (!processor_is_faster_by_onednn())
      return std::nullopt;
    const auto op = c10::Dispatcher::singleton().findSchema(
      {"mkldnn::_linear_pointwise", ""});
    return op ? std::optional(op->typed<linear_op>()) : std::nullopt;
  }();
  return found ? &*found : nullptr;
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat
         && tensor.layout() == at::kStrided;
}

/// Below this, the cost of a call outweighs the faster product.
constexpr std::int64_t least_multiplications = 1 << 21;

bool takes_onednn(const at::Tensor& a, const at::Tensor& b,
                  std::int64_t results) {
  return is_plain(a) && is_plain(b) && results > 0 && a.dim() > 0
         && results * a.size(-1) >= least_multiplications
         && !at::autocast::is_autocast_enabled(at::kCPU) && onednn_linear();
}

at::Tensor by_onednn(const at::Tensor& x, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias = {}) {
  return onednn_linear()->call(x, weight, bias, "none",
                               c10::List<std::optional<at::Scalar>>(), "");
}

/// Whether the device multiplies factors of a half precision into fp32, as
/// cuBLAS does: no product is rounded, and none is stored before it is added.
bool multiplies_into(at::ScalarType type, const at::Tensor& a) {
  return a.is_cuda() && type == at::kFloat
         && (a.scalar_type() == at::kBFloat16 || a.scalar_type() == at::kHalf);
}

void add_in_parts(const at::Tensor& sum, const at::Tensor& a,
                  const at::Tensor& b) {
  constexpr std::int64_t most_elements = 1 << 22;
  const auto widest = std::max(sum.size(1), a.size(1));  // a's rows are copied
  const auto rows = std::max<std::int64_t>(most_elements / widest, 1);
  for (std::int64_t first = 0; first < sum.size(0); first += rows) {
    const auto count = std::min(rows, sum.size(0) - first);
    sum.narrow(0, first, count)
      .add_(by_onednn(a.narrow(0, first, count), b.t()));
  }
}

}  // namespace

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
  const bool has_bias = bias && bias->defined();
  const bool wants_graph = at::GradMode::is_enabled()
                           && (x.requires_grad() || weight.requires_grad()
                               || (has_bias && bias->requires_grad()));
  if (wants_graph || (has_bias && !is_plain(*bias)) || weight.dim() != 2
      || x.dim() == 0 || x.size(-1) != weight.size(1) || x.size(-1) == 0)
    return at::linear(x, weight, bias);
  const auto defined_bias = has_bias ? bias : std::nullopt;
  if (auto y = small_linear(x, weight, defined_bias); y.defined())
    return y;
  return takes_onednn(x, weight, x.numel() / x.size(-1) * weight.size(0))
           ? by_onednn(x, weight, defined_bias)
           : at::linear(x, weight, bias);
}

at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() != 2 || b.dim() != 2 || a.size(1) != b.size(0))
    return a.mm(b);
  if (auto product = small_product(a, b); product.defined())
    return product;
  return takes_onednn(a, b, a.size(0) * b.size(1)) ? by_onednn(a, b.t())
                                                   : a.mm(b);
}

void add_matrix_product(at::Tensor& sum, const at::Tensor& a,
                        const at::Tensor& b, at::ScalarType type) {
  if (!sum.defined())
    sum = multiplies_into(type, a) ? at::mm(a, b, type)
                                   : matrix_product(a, b).to(type);
  else if (multiplies_into(sum.scalar_type(), a))
    at::addmm_out(sum, sum, a, b, at::kFloat);
  else if (a.scalar_type() != sum.scalar_type())
    sum.add_(matrix_product(a, b));
  else if (add_small_product(sum, a, b))
    return;
  else if (is_plain(sum) && takes_onednn(a, b, sum.numel()))
    add_in_parts(sum, a, b);
  else
    sum.addmm_(a, b);
}

}  // namespace troupe
