#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/models/decoders/decoder_parts.hpp"

namespace troupe {

namespace {

/// A list of modules with numbers as names.
struct module_list final : torch::nn::Module {};

/// Each token goes through a few of the MLPs, which a router chooses, and takes
/// their sum, weighted by the router's probabilities (Shazeer et al., 2017;
/// Jiang et al., 2024). All experts are here. One that no token chose runs on
/// no rows, so that its gradients are zeros, as those of transformers.
struct experts final : decoder_mlp {
  experts(const decoder_options& options, const at::TensorOptions& kind)
    : o_(options.experts),
      notes_routes_(options.has_router_loss()),
      gate_(register_module(
        "gate", std::make_shared<linear_layer>(options.width, o_.count,
                                               linear_options{kind, false}))),
      list_(register_module("experts", std::make_shared<module_list>())) {
    auto each = options;
    each.inner = o_.inner;
    each.names = o_.names;
    for (std::int64_t i = 0; i < o_.count; ++i)
      experts_.push_back(list_->register_module(fmt::format("{}", i),
                                                make_dense_mlp(each, kind)));
  }

  at::Tensor forward(const at::Tensor& x) override {
    const auto rows = x.reshape({-1, x.size(-1)});
    const auto shares = observe(gate_, rows).softmax(-1, at::kFloat);
    auto [weights, chosen] = shares.topk(o_.chosen, -1);
    if (notes_routes_)
      routes_ = at::stack(
        {shares.sum(0), at::zeros_like(shares).scatter(1, chosen, 1).sum(0)});
    if (o_.normalised)
      weights = weights / weights.sum(-1, true);
    auto sum = at::zeros_like(rows);
    for (std::int64_t i = 0; i < o_.count; ++i) {
      const auto places = (chosen == i).nonzero().unbind(1);
      const auto& token = places[0];
      const auto outputs = observe(experts_[static_cast<std::size_t>(i)],
                                   rows.index_select(0, token));
      const auto weight = weights.index({token, places[1]}).unsqueeze(-1);
      sum = sum.index_add(0, token, (outputs * weight).to(x.scalar_type()));
    }
    return sum.view(x.sizes());
  }

  at::Tensor take_routes() override { return std::exchange(routes_, {}); }

 private:
  expert_options o_;
  bool notes_routes_;
  at::Tensor routes_;
  std::shared_ptr<linear_layer> gate_;
  std::shared_ptr<module_list> list_;
  std::vector<std::shared_ptr<decoder_mlp>> experts_;
};

}  // namespace

std::shared_ptr<decoder_mlp> make_experts(const decoder_options& options,
                                          const at::TensorOptions& kind) {
  return std::make_shared<experts>(options, kind);
}

}  // namespace troupe
