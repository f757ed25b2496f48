#include "troupe/engine/stage/mean_gradient.hpp"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace troupe {

at::Tensor mean_gradient(const tensor_list& of_replicas) {
  const auto known = std::ranges::find_if(
    of_replicas, [](const auto& each) { return each.defined(); });
  if (known == of_replicas.end())
    return {};
  auto sum = of_replicas[0].defined() ? of_replicas[0] : at::zeros_like(*known);
  if (of_replicas.size() == 1)
    return sum;
  for (std::size_t r = 1; r < of_replicas.size(); ++r)
    if (of_replicas[r].defined())
      sum.add_(of_replicas[r].to(sum.device()));
    else
      sum.add_(0);  // turns -0 into 0, as adding zeros does
  return sum.div_(static_cast<double>(of_replicas.size()));
}

}  // namespace troupe
