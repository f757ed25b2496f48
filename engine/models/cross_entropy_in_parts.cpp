#include "troupe/engine/models/cross_entropy_in_parts.hpp"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>

#include "troupe/engine/device/matrix_product.hpp"
#include "troupe/engine/stage/module/autocast.hpp"
#include "troupe/engine/stage/module/saved_tensors.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"

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

/// The gradient of the sum of losses with respect to a part's logits, in fp32.
at::Tensor gradient_of(const at::Tensor& logits, const at::Tensor& targets) {
  auto made = logits.to(at::kFloat).softmax(-1);
  const auto counts = targets.ne(ignored_target).unsqueeze(1);
  const auto classes = targets.clamp_min(0).unsqueeze(1);
  made.scatter_add_(1, classes, counts.to(at::kFloat).neg());
  return made.mul_(counts);
}

/// The sum of the losses of rows; x: [rows, width], targets: [rows].
struct parted_loss : torch::autograd::Function<parted_loss> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& targets, std::int64_t positions) {
    note_store(*context, {weight});
    const auto type = compute_type(x);
    const auto input = x.to(type), factor = weight.to(type);
    auto sum = at::zeros({}, x.options().dtype(at::kFloat));
    for_each_part(x.size(0), positions, [&](part p) {
      const auto logits =
        linear_product(input.narrow(0, p.first, p.count), factor)
          .to(at::kFloat);
      sum += at::cross_entropy_loss(logits, targets.narrow(0, p.first, p.count),
                                    {}, at::Reduction::Sum, ignored_target);
    });
    context->save_for_backward({input, weight, targets});
    context->saved_data["positions"] = positions;
    return sum;
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& x = saved[0];
    const auto weight = parameter_of(saved[1]);
    const auto& targets = saved[2];
    const auto positions = context->saved_data["positions"].toInt();
    const auto factor = weight.to(x.scalar_type());
    const bool trains = weight.requires_grad();
    auto before = at::empty_like(x);
    at::Tensor of_weight;
    for_each_part(x.size(0), positions, [&](part p) {
      const auto rows = x.narrow(0, p.first, p.count);
      const auto of_logits = (gradient_of(linear_product(rows, factor),
                                          targets.narrow(0, p.first, p.count))
                              * gradients[0])
                               .to(x.scalar_type());
      before.narrow(0, p.first, p.count)
        .copy_(matrix_product(of_logits, factor));
      if (!trains)
        return;
      add_matrix_product(of_weight, of_logits.t(), rows, weight.scalar_type());
    });
    if (trains)
      add_weight_gradients(*context, [weight, of_weight] {
        accumulate_gradient(weight, of_weight);
      });
    return {before, {}, {}, {}};
  }
};

}  // namespace

loss_term cross_entropy_in_parts(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& targets,
                                 std::int64_t positions) {
  const auto count = targets.ne(ignored_target).sum();
  const at::Tensor sum = parted_loss::apply(x.reshape({-1, x.size(-1)}), weight,
                                            targets.reshape({-1}), positions);
  return {"loss", sum / count.clamp_min(1), 0, 1, count};
}

}  // namespace troupe
