#include "troupe/engine/fused/attention_operators.hpp"

#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <tuple>
#include <type_traits>

#include "troupe/engine/fused/attention_kernels.hpp"
#include "troupe/engine/fused/operator_of.hpp"

namespace troupe::fused {

namespace {

std::atomic<const attention_kernels*>& chosen() {
  static std::atomic kernels = [] {
    const auto* best = usable_attention().back();
    return best == &plain_attention ? nullptr : best;
  }();
  return kernels;
}

/// Whether LibTorch's products in bf16 have units of their own (AMX).
bool multiplies_bf16() {
  static const bool has = [] {
    const auto all = at::cpu::get_cpu_capabilities();
    const auto found = all.find("amx_bf16");
    return found != all.end() && found->second.toBool();
  }();
  return has;
}

/// The heads of a row from that one on.
template <class T>
head_rows<T> heads_at(const at::Tensor& x, std::int64_t row,
                      std::int64_t head) {
  return {
    static_cast<T*>(x.data_ptr()) + row * x.stride(0) + head * x.stride(2),
    x.stride(1), x.stride(2)};
}

attention_sizes sizes_of(const heads_of_three& all, double scale, bool causal) {
  const auto& [q, k, v] = all;
  return {q.size(2) / k.size(2),     q.size(1), k.size(1), q.size(3),
          static_cast<float>(scale), causal};
}

/// Calls work(row, key head, its first query head, scratch) for each key head,
/// in parallel.
template <class Work>
void for_each_key_head(const heads_of_three& all, const attention_sizes& sizes,
                       const Work& work) {
  const auto heads = all[1].size(2);
  at::parallel_for(
    0, all[1].size(0) * heads, 1, [&](std::int64_t first, std::int64_t end) {
      const auto scratch = c10::GetCPUAllocator()->allocate(
        static_cast<std::size_t>(chosen().load()->scratch_of(sizes)) * 4);
      for (auto i = first; i < end; ++i)
        work(i / heads, i % heads, i % heads * sizes.group,
             static_cast<float*>(scratch.get()));
    });
}

template <class T>
const attention_functions<T>& functions_of() {
  if constexpr (std::is_same_v<T, float>)
    return chosen().load()->fp32;
  else
    return chosen().load()->bf16;
}

/// The logarithms of a row's heads from that one on.
float* logarithms_of(const attended& result, std::int64_t row,
                     std::int64_t head) {
  return result.logarithms.data_ptr<float>()
         + (row * result.logarithms.size(1) + head) * result.logarithms.size(2);
}

template <class T>
void forward_of(const heads_of_three& all, const attention_sizes& sizes,
                const attended& to) {
  const auto& [q, k, v] = all;
  for_each_key_head(all, sizes, [&](auto row, auto key, auto head, auto* free) {
    functions_of<T>().forward(
      sizes,
      {heads_at<const T>(q, row, head), heads_at<const T>(k, row, key),
       heads_at<const T>(v, row, key), heads_at<T>(to.output, row, head),
       logarithms_of(to, row, head)},
      free);
  });
}

attended forward_on_cpu(const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, double scale, bool causal) {
  const heads_of_three all{q, k, v};
  const auto sizes = sizes_of(all, scale, causal);
  const attended result{at::empty(q.sizes(), q.options()),
                        at::empty({q.size(0), q.size(2), q.size(1)},
                                  q.options().dtype(at::kFloat))};
  if (q.scalar_type() == at::kFloat)
    forward_of<float>(all, sizes, result);
  else
    forward_of<bf16_bits>(all, sizes, result);
  return result;
}

template <class T>
void backward_of(const heads_of_three& all, const attention_sizes& sizes,
                 const attended& result, const at::Tensor& of_output,
                 const heads_of_three& to) {
  const auto& [q, k, v] = all;
  for_each_key_head(all, sizes, [&](auto row, auto key, auto head, auto* free) {
    functions_of<T>().backward(
      sizes,
      {heads_at<const T>(q, row, head), heads_at<const T>(k, row, key),
       heads_at<const T>(v, row, key),
       heads_at<const T>(result.output, row, head),
       heads_at<const T>(of_output, row, head), heads_at<T>(to[0], row, head),
       heads_at<T>(to[1], row, key), heads_at<T>(to[2], row, key),
       logarithms_of(result, row, head)},
      free);
  });
}

using two_tensors = std::tuple<at::Tensor, at::Tensor>;

two_tensors forward_operator(const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& v, double scale, bool causal) {
  const auto result = forward_on_cpu(q, k, v, scale, causal);
  return {result.output, result.logarithms};
}

void backward_operator(const at::Tensor& of_output, const at::Tensor& q,
                       const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& output, const at::Tensor& logarithms,
                       at::Tensor of_q, at::Tensor of_k, at::Tensor of_v,
                       double scale, bool causal) {
  const heads_of_three all{q, k, v}, to{of_q, of_k, of_v};
  const auto sizes = sizes_of(all, scale, causal);
  const attended result{output, logarithms};
  if (q.scalar_type() == at::kFloat)
    backward_of<float>(all, sizes, result, of_output, to);
  else
    backward_of<bf16_bits>(all, sizes, result, of_output, to);
}

void define_attention(torch::Library& library) {
  add_operator(library, "attention",
               "attention(Tensor query, Tensor key, Tensor value, float scale, "
               "bool causal) -> (Tensor, Tensor)",
               forward_operator);
  add_operator(
    library, "attention_backward",
    "attention_backward(Tensor of_output, Tensor query, Tensor key, Tensor "
    "value, Tensor output, Tensor logarithms, Tensor(a!) of_query, Tensor(b!) "
    "of_key, Tensor(c!) of_value, float scale, bool causal) -> ()",
    backward_operator);
}

}  // namespace

bool has_attention(at::ScalarType type) {
  return chosen() != nullptr
         && (type == at::kFloat
             || (type == at::kBFloat16 && !multiplies_bf16()));
}

void use_attention(const attention_kernels* kernels) {
  chosen() = kernels;
}

attended attend(const heads_of_three& all, double scale, bool causal) {
  static const auto forward = operator_of<decltype(forward_operator)>(
    "troupe::attention", define_attention);
  auto [output, logarithms] =
    forward.call(all[0], all[1], all[2], scale, causal);
  return {std::move(output), std::move(logarithms)};
}

void attend_backward(const heads_of_three& all, const attended& result,
                     const at::Tensor& of_output, const heads_of_three& to,
                     double scale, bool causal) {
  static const auto backward = operator_of<decltype(backward_operator)>(
    "troupe::attention_backward", define_attention);
  backward.call(of_output, all[0], all[1], all[2], result.output,
                result.logarithms, to[0], to[1], to[2], scale, causal);
}

}  // namespace troupe::fused
