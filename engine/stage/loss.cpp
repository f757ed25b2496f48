#include "troupe/engine/stage/loss.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/error_context.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"

namespace troupe {

namespace {

constexpr std::int64_t ignored_target = -100;

at::Tensor at_least_fp32(const at::Tensor& values) {
  const auto type = values.scalar_type();
  return at::isReducedFloatingType(type) ? values.to(at::kFloat) : values;
}

}  // namespace

loss_term loss_of_sum(std::string name, const at::Tensor& sum,
                      const at::Tensor& count) {
  return {std::move(name), sum / count.clamp_min(1), 0, 1, count};
}

loss_function cross_entropy_loss() {
  const auto terms = [](const tensor_list& outputs,
                        const microbatch_data& data) {
    if (outputs.empty() || data.targets.empty())
      throw error(error_code::invalid_argument,
                  "cross_entropy_loss needs an output and a target; the last "
                  "stage returned "
                    + describe(outputs) + ", the loader "
                    + describe(data.targets));
    const auto& logits = outputs[0];
    const auto& target = data.targets[0];
    // The mean of no items would be NaN.
    const auto sum = at::cross_entropy_loss(
      at_least_fp32(logits).reshape({-1, logits.size(-1)}),
      target.reshape({-1}), {}, at::Reduction::Sum, ignored_target);
    return std::vector{
      loss_of_sum("loss", sum, target.ne(ignored_target).sum())};
  };
  const auto counts = [](const microbatch_data& data) {
    return data.targets.empty()
             ? item_counts{}
             : item_counts{
               {"loss",
                data.targets[0].ne(ignored_target).sum().item<double>()}};
  };
  loss_function loss(terms, counts);
  loss.is_cross_entropy_ = true;
  return loss;
}

loss_function mean_loss(
  std::string name,
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>
    mean) {
  return {[name = std::move(name), mean = std::move(mean)](
            const tensor_list& outputs, const microbatch_data& data) {
    if (outputs.empty() || data.targets.empty())
      fail(error_code::invalid_argument,
           "the loss '{}' needs an output and a target; the last stage "
           "returned {}, the loader {}",
           name, describe(outputs), describe(data.targets));
    const auto& target = data.targets[0];
    return std::vector<loss_term>{
      {name, mean(outputs[0], target), static_cast<double>(target.numel())}};
  }};
}

std::vector<loss_term> losses_of(const loss_function& loss,
                                 const tensor_list& outputs,
                                 const microbatch_data& data) {
  return with_context("in the loss function",
                      [&] { return loss(outputs, data); });
}

double count_of(const loss_term& term) {
  return term.counted.defined() ? term.counted.item<double>() : term.count;
}

loss_term detached_loss(const loss_term& term) {
  return {term.name, term.value.detach().to(at::kDouble), term.count,
          term.weight,
          term.counted.defined() ? term.counted.to(at::kDouble) : at::Tensor{}};
}

std::vector<named_value> read_losses(const std::vector<loss_term>& terms,
                                     rank_device* device) {
  tensor_list values;
  for (const auto& term : terms) {
    values.push_back(term.value);
    if (term.counted.defined())
      values.push_back(term.counted);
  }
  const auto numbers = read_on_host(at::stack(values), device);
  const auto* next = numbers.const_data_ptr<double>();
  std::vector<named_value> losses;
  for (const auto& term : terms) {
    const auto value = *next++;
    losses.push_back(
      {term.name, value, term.counted.defined() ? *next++ : term.count});
  }
  return losses;
}

std::vector<loss_term> optimised(const std::vector<loss_term>& terms) {
  std::vector<loss_term> weighted;
  for (const auto& term : terms) {
    if (!term.value.defined() || term.value.numel() != 1)
      fail(error_code::invalid_argument,
           "the loss '{}' is {}; a loss function must return each loss as a "
           "tensor of one value",
           term.name, describe(term.value));
    if (term.weight != 0)
      weighted.push_back(term);
  }
  if (weighted.empty())
    throw error(error_code::invalid_argument,
                "the loss function returned no term with a weight other than "
                "0; return at least one to optimise");
  if (at::GradMode::is_enabled()
      && std::ranges::none_of(weighted, [](const loss_term& term) {
           return term.value.requires_grad();
         }))
    fail(error_code::invalid_argument,
         "the loss '{}' has no gradient, so nothing would be trained: it does "
         "not depend on a parameter, or was computed from detached values",
         terms.front().name);
  return weighted;
}

}  // namespace troupe
