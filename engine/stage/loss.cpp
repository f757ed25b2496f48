#include "troupe/engine/stage/loss.hpp"

#include <ATen/ops/cross_entropy_loss.h>

#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

at::Tensor at_least_fp32(const at::Tensor& values) {
  const auto type = values.scalar_type();
  return at::isReducedFloatingType(type) ? values.to(at::kFloat) : values;
}

}  // namespace

loss_function cross_entropy_loss() {
  return [](const tensor_list& outputs, const microbatch_data& data) {
    if (outputs.empty() || data.targets.empty())
      throw error(error_code::invalid_argument,
                  "cross_entropy_loss needs an output and a target; the last "
                  "stage gave "
                    + describe(outputs) + ", the loader "
                    + describe(data.targets));
    const auto& logits = outputs[0];
    const auto& target = data.targets[0];
    auto loss = at::cross_entropy_loss(
      at_least_fp32(logits).reshape({-1, logits.size(-1)}),
      target.reshape({-1}));
    return std::vector<loss_term>{
      {"loss", loss, static_cast<double>(target.numel())}};
  };
}

at::Tensor weighted_sum(const std::vector<loss_term>& terms) {
  at::Tensor sum;
  for (const auto& term : terms) {
    if (term.weight == 0)
      continue;
    auto part = term.weight == 1 ? term.value : term.value * term.weight;
    sum = sum.defined() ? sum + part : part;
  }
  if (!sum.defined())
    throw error(error_code::invalid_argument,
                "the loss function gave no term with a weight other than 0; "
                "give at least one to optimise");
  return sum;
}

}  // namespace troupe
