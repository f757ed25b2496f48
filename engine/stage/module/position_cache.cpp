#include "troupe/engine/stage/module/position_cache.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

void position_cache::grow(buffer& target, const at::Tensor& own,
                          std::int64_t needed) {
  auto& whole = target.whole;
  const auto capacity = whole.defined() ? whole.size(target.dimension) : 0;
  if (needed <= capacity)
    return;
  auto sizes = own.sizes().vec();
  sizes[static_cast<std::size_t>(target.dimension)] =
    std::max(needed, 2 * capacity);
  const auto larger = at::empty(sizes, own.options());
  if (target.used > 0)
    larger.narrow(target.dimension, 0, target.used)
      .copy_(whole.narrow(target.dimension, 0, target.used));
  whole = larger;
}

at::Tensor position_cache::append(std::size_t call, const at::Tensor& own,
                                  std::int64_t dimension) {
  if (call >= buffers_.size())
    buffers_.resize(call + 1);
  auto& target = buffers_[call];
  target.dimension = dimension;
  if (target.used > 0) {
    auto expected = target.whole.sizes().vec();
    expected.at(static_cast<std::size_t>(dimension)) = own.size(dimension);
    if (own.sizes() != expected
        || own.scalar_type() != target.whole.scalar_type())
      fail(error_code::invalid_argument,
           "a layer cached tensors of {} for later positions, then one of {}; "
           "they may differ only in dimension {}",
           fmt::join(expected, " x "), fmt::join(own.sizes(), " x "),
           dimension);
  }
  const auto begin = target.used;
  const auto length = own.size(dimension);
  grow(target, own, begin + length);
  target.whole.narrow(dimension, begin, length).copy_(own);
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

}  // namespace troupe
