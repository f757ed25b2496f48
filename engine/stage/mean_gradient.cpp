#include "troupe/engine/stage/mean_gradient.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace troupe {

at::Tensor mean_gradient(const tensor_list& gradients, std::int32_t replicas) {
  const auto known = std::ranges::find_if(
    gradients, [](const auto& each) { return each.defined(); });
  if (known == gradients.end())
    return {};
  auto sum = gradients[0].defined() ? gradients[0] : at::zeros_like(*known);
  for (std::size_t i = 1; i < gradients.size(); ++i)
    if (gradients[i].defined())
      sum.add_(gradients[i].to(sum.device()));
    else
      sum.add_(0);  // turns -0 into 0, as adding zeros does
  return replicas == 1 ? sum : sum.div_(static_cast<double>(replicas));
}

}  // namespace troupe
