#include "troupe/engine/stage/update/gradient_mean.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "troupe/base/fail.hpp"

namespace troupe {

gradient_division balanced_division(std::int32_t replicas) {
  std::int64_t before = 1;
  while (replicas % before == 0 && replicas / before > before)
    before *= 2;
  return {.before = static_cast<double>(before)};
}

void require_legal(const gradient_division& division) {
  const auto is_factor = [](double value) {
    return value >= 1e-6 && value <= 1e6;
  };
  if (!is_factor(division.before)
      || (division.after != 0 && !is_factor(division.after)))
    fail(error_code::invalid_argument,
         "gradients can't be divided by {} and {}; use 1e-6 to 1e6",
         division.before, division.after);
}

gradient_mean::gradient_mean(std::int32_t replicas, gradient_division division)
  : replicas_(replicas), division_(division) {
  if (division_.after == 0)
    division_.after = static_cast<double>(replicas) / division_.before;
}

at::Tensor gradient_mean::addend(const at::Tensor& gradient) const {
  const auto share =
    division_.before == 1 ? gradient : gradient.div(division_.before);
  return division_.in_fp32 ? share.to(widened(share.scalar_type())) : share;
}

at::Tensor gradient_mean::divided(at::Tensor sum) const {
  sum = sum.to(widened(sum.scalar_type()));
  return division_.after == 1 ? sum : sum.div_(division_.after);
}

at::Tensor gradient_mean::of(const tensor_list& gradients) const {
  const auto present = std::ranges::find_if(
    gradients, [](const auto& each) { return each.defined(); });
  if (present == gradients.end())
    return {};
  if (gradients.size() == 1)
    return gradients[0];
  auto sum =
    addend(gradients[0].defined() ? gradients[0] : at::zeros_like(*present));
  for (std::size_t i = 1; i < gradients.size(); ++i)
    if (gradients[i].defined())
      sum.add_(addend(gradients[i]).to(sum.device()));
    else
      sum.add_(0);  // turns -0 into 0, as adding zeros does
  return divided(std::move(sum));
}

}  // namespace troupe
