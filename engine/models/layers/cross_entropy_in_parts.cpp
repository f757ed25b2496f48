#include "troupe/engine/models/layers/cross_entropy_in_parts.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>

#include "troupe/engine/device/matrix_product.hpp"
#include "troupe/engine/fused/cross_entropy.hpp"
#include "troupe/engine/stage/module/autocast.hpp"
#include "troupe/engine/stage/module/saved_tensors.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/parameters/weight_casts.hpp"

namespace troupe {

namespace {

constexpr std::int64_t ignored_target = -100;

using torch::autograd::variable_list;

struct part {
  std::int64_t first, count;
};

void for_each_part(std::int64_t rows, std::int64_t positions,
                   const std::function<void(part)>& work) {
  for (std::int64_t first = 0; first < rows; first += positions)
    work({first, std::min(positions, rows - first)});
}

/// The logits of a part's rows. All factors have one type, that of the result.
at::Tensor logits_of(const std::vector<linear_factors>& all, part p) {
  at::Tensor sum;
  for (const auto& [x, weight] : all) {
    const auto product = linear_product(x.narrow(0, p.first, p.count), weight);
    sum = sum.defined() ? sum + product : product;
  }
  return sum;
}

/// The sum of the losses of rows, whose logits are the sum of x W^T of `inputs`
/// and `weights`; inputs: [rows, ...], targets: [rows].
struct parted_loss : torch::autograd::Function<parted_loss> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            at::TensorList inputs, at::TensorList weights,
                            const at::Tensor& targets, std::int64_t positions) {
    note_store(*context, weights.vec());
    note_casts(*context);
    const auto type = compute_type(inputs[0]);
    std::vector<linear_factors> factors;
    variable_list saved{targets};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      factors.push_back({inputs[i].to(type), cast_of(weights[i], type)});
      saved.insert(saved.end(), {factors[i].x, weights[i]});
    }
    auto sum = at::zeros({}, inputs[0].options().dtype(at::kFloat));
    auto norms = at::empty({targets.size(0), 2}, sum.options());
    for_each_part(targets.size(0), positions, [&](part p) {
      const auto losses = fused::cross_entropy(
        logits_of(factors, p), targets.narrow(0, p.first, p.count),
        ignored_target);
      sum += losses.sum;
      norms.narrow(0, p.first, p.count).copy_(losses.norms);
    });
    saved.push_back(std::move(norms));
    context->save_for_backward(saved);
    context->saved_data["positions"] = positions;
    return sum;
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &targets = saved.front(), &norms = saved.back();
    std::vector<linear_factors> factors;
    variable_list parameters, before;
    for (std::size_t i = 1; i + 1 < saved.size(); i += 2) {
      const auto& x = saved[i];
      parameters.push_back(parameter_of(saved[i + 1]));
      factors.push_back(
        {x, cast_of(*context, parameters.back(), x.scalar_type())});
      before.push_back(at::empty_like(x));
    }
    variable_list of_weights(factors.size());
    const auto positions = context->saved_data["positions"].toInt();
    for_each_part(targets.size(0), positions, [&](part p) {
      const auto of_logits = logits_of(factors, p);
      fused::cross_entropy_gradient_(
        of_logits, targets.narrow(0, p.first, p.count),
        norms.narrow(0, p.first, p.count), gradients[0], ignored_target);
      for (std::size_t i = 0; i < factors.size(); ++i) {
        const auto& [x, weight] = factors[i];
        before[i]
          .narrow(0, p.first, p.count)
          .copy_(matrix_product(of_logits, weight));
        if (parameters[i].requires_grad())
          add_matrix_product(of_weights[i], of_logits.t(),
                             x.narrow(0, p.first, p.count),
                             widened(parameters[i].scalar_type()));
      }
    });
    add_weight_gradients(*context, [parameters, of_weights] {
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (parameters[i].requires_grad())
          accumulate_gradient(parameters[i],
                              of_weights[i].to(parameters[i].scalar_type()));
    });
    before.resize(2 * factors.size() + 2);  // none of weights and the others
    return before;
  }
};

}  // namespace

loss_term cross_entropy_in_parts(const std::vector<linear_factors>& logits,
                                 const at::Tensor& targets,
                                 std::int64_t positions) {
  tensor_list inputs, weights;
  for (const auto& [x, weight] : logits) {
    inputs.push_back(x.reshape({-1, x.size(-1)}));
    weights.push_back(weight);
  }
  const auto count = targets.ne(ignored_target).sum();
  const at::Tensor sum =
    parted_loss::apply(at::TensorList(inputs), at::TensorList(weights),
                       targets.reshape({-1}), positions);
  return loss_of_sum("loss", sum, count);
}

}  // namespace troupe
