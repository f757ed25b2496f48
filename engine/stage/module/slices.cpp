#include "troupe/engine/stage/module/slices.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <c10/core/WrapDimMinimal.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "troupe/base/fail.hpp"

namespace troupe {

slice_pass*& current_pass() {
  static thread_local slice_pass* pass = nullptr;
  return pass;
}

namespace {

std::int64_t first_of(std::int64_t length, std::int64_t index,
                      std::int64_t count) {
  return index * (length / count) + std::min(index, length % count);
}

/// total * part / whole, without overflow: 0 <= part <= whole.
std::int64_t share_of(std::int64_t total, std::int64_t part,
                      std::int64_t whole) {
  return total / whole * part + total % whole * part / whole;
}

const at::Tensor* sequence_of(const tensor_list& tensors) {
  const auto sequence = std::ranges::find_if(
    tensors,
    [](const at::Tensor& each) { return each.defined() && each.dim() >= 2; });
  return sequence == tensors.end() ? nullptr : &*sequence;
}

}  // namespace

std::int64_t sequence_length(const tensor_list& tensors) {
  const auto* sequence = sequence_of(tensors);
  return sequence ? sequence->size(1) : 0;
}

microbatch_data slice_of(const microbatch_data& data, std::int32_t index,
                         std::int32_t count) {
  const auto all = tensors_of(data);
  if (all.empty())
    return data;
  const auto* sequence = sequence_of(all);
  if (!sequence)
    fail(error_code::invalid_argument,
         "a microbatch is cut into {} slices along dimension 1 of its tensors, "
         "but none has two dimensions",
         count);
  const auto length = sequence->size(1);
  if (length < count)
    fail(error_code::invalid_argument,
         "{} slices of a sequence of {} positions; use at most {}", count,
         length, length);
  const auto first = first_of(length, index, count);
  const auto end = first_of(length, index + 1, count);
  auto part = transformed(data, [&](const at::Tensor& whole) {
    return whole.defined() && whole.dim() >= 2 && whole.size(1) == length
             ? whole.slice(1, first, end)
             : whole;
  });
  // Rounded so that the slices' counts add up to the microbatch's.
  part.tokens =
    share_of(data.tokens, end, length) - share_of(data.tokens, first, length);
  return part;
}

void position_cache::grow(buffer& target, const at::Tensor& tensor,
                          std::int64_t needed) {
  auto& whole = target.whole;
  const auto capacity = whole.defined() ? whole.size(target.dimension) : 0;
  if (needed <= capacity)
    return;
  auto sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(target.dimension)] =
    std::max(needed, 2 * capacity);
  const auto larger = at::empty(sizes, tensor.options());
  if (target.used > 0)
    larger.narrow(target.dimension, 0, target.used)
      .copy_(whole.narrow(target.dimension, 0, target.used));
  whole = larger;
}

at::Tensor position_cache::append(std::size_t call, const at::Tensor& tensor,
                                  std::int64_t dimension) {
  dimension = c10::maybe_wrap_dim(dimension, tensor.dim());
  if (call >= buffers_.size())
    buffers_.resize(call + 1);
  auto& target = buffers_[call];
  target.dimension = dimension;
  if (target.used > 0) {
    auto expected = target.whole.sizes().vec();
    expected.at(static_cast<std::size_t>(dimension)) = tensor.size(dimension);
    if (tensor.sizes() != expected
        || tensor.scalar_type() != target.whole.scalar_type())
      fail(error_code::invalid_argument,
           "a layer cached tensors of {} for later positions, then one of {}; "
           "they may differ only in dimension {}",
           fmt::join(expected, " x "), fmt::join(tensor.sizes(), " x "),
           dimension);
  }
  const auto begin = target.used;
  const auto length = tensor.size(dimension);
  grow(target, tensor, begin + length);
  target.whole.narrow(dimension, begin, length).copy_(tensor);
  target.used = begin + length;
  return target.whole.narrow(dimension, 0, target.used);
}

void position_cache::keep_rows(const std::vector<std::int64_t>& rows) {
  for (auto& each : buffers_)
    if (each.whole.defined())
      each.whole = each.whole.index_select(
        0, at::tensor(rows, at::kLong).to(each.whole.device()));
}

std::int64_t position_cache::bytes() const {
  std::int64_t sum = 0;
  for (const auto& each : buffers_)
    sum +=
      each.whole.defined() ? static_cast<std::int64_t>(each.whole.nbytes()) : 0;
  return sum;
}

slice_pass::slice_pass(std::int32_t index, std::int32_t count,
                       slice_carry_pointer earlier, std::int64_t length,
                       bool gradients)
  : place_{index, count, earlier ? earlier->positions : 0},
    gradients_(gradients),
    earlier_(std::move(earlier)),
    positions_(place_.first + length) {
  if (!gradients_ && !earlier_)
    earlier_ = std::make_shared<slice_carry>();
}

std::size_t slice_pass::earlier_calls() const {
  return gradients_ ? earlier_->of_call.size() : earlier_->cache.calls();
}

void slice_pass::refuse_calls(std::size_t calls) const {
  fail(error_code::invalid_argument,
       "slice {} of a microbatch reads the tensors of earlier slices {} times, "
       "but earlier slices did so {} times",
       place_.index, calls, earlier_calls());
}

at::Tensor slice_pass::with_earlier(const at::Tensor& tensor,
                                    std::int64_t dimension) {
  const auto call = calls_++;
  if (!gradients_) {
    if (place_.first > 0 && call >= earlier_calls())
      refuse_calls(calls_);
    return earlier_->cache.append(call, tensor, dimension);
  }
  own_edges_.push_back(tensor.requires_grad()
                         ? torch::autograd::impl::gradient_edge(tensor)
                         : torch::autograd::Edge{});
  own_.push_back(tensor.detach());
  if (!earlier_)
    return tensor;
  if (call >= earlier_calls())
    refuse_calls(calls_);
  tensor_list parts;
  for (const auto& each : earlier_->of_call[call]) {
    auto leaf = each.detach();
    leaf.requires_grad_(tensor.requires_grad());
    leaves_.push_back(leaf);
    parts.push_back(std::move(leaf));
  }
  parts.push_back(tensor);
  return at::cat(parts, dimension);
}

slice_carry_pointer slice_pass::for_later() const {
  if (earlier_ && earlier_calls() > calls_)
    refuse_calls(calls_);
  if (!gradients_) {
    earlier_->positions = positions_;
    return earlier_;
  }
  auto carry = std::make_shared<slice_carry>();
  if (earlier_)
    carry->of_call = earlier_->of_call;
  carry->of_call.resize(own_.size());
  for (std::size_t call = 0; call < own_.size(); ++call)
    carry->of_call[call].push_back(own_[call]);
  carry->positions = positions_;
  return carry;
}

void slice_pass::drop_data_with(saved_tensors& saved) {
  earlier_ = nullptr;
  own_.clear();
  for (const auto& each : leaves_)
    saved.drop_later(each);
}

void slice_pass::add_roots(backward_roots& roots,
                           const slice_carry* later) const {
  if (later)
    for (std::size_t call = 0; call < own_edges_.size(); ++call)
      roots.add(own_edges_[call], later->of_call.at(call).at(
                                    static_cast<std::size_t>(place_.index)));
}

slice_carry_pointer slice_pass::gradients_for_earlier(
  const tensor_list& of_leaves, const slice_carry* later) const {
  auto carry = std::make_shared<slice_carry>();
  const auto earlier = static_cast<std::size_t>(place_.index);
  std::size_t next = 0;
  for (std::size_t call = 0; call < own_edges_.size(); ++call) {
    auto& gradients = carry->of_call.emplace_back();
    for (std::size_t slice = 0; slice < earlier; ++slice) {
      auto sum = later ? later->of_call.at(call).at(slice) : at::Tensor{};
      const auto& own = of_leaves.at(next++);
      if (sum.defined() && own.defined())
        sum = sum + own;
      else if (own.defined())
        sum = own;
      gradients.push_back(std::move(sum));
    }
  }
  return carry;
}

slice_place current_slice() {
  return current_pass() ? current_pass()->place() : slice_place{};
}

at::Tensor with_earlier_slices(const at::Tensor& tensor,
                               std::int64_t dimension) {
  return current_pass() ? current_pass()->with_earlier(tensor, dimension)
                        : tensor;
}

}  // namespace troupe
