#include "troupe/engine/stage/module_stage.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>

#include "troupe/engine/stage/gradient_norm.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

tensor_list parameters_of(const layer_sequence& module) {
  tensor_list all;
  for (const auto& [name, parameter] : module.parameters_by_name())
    all.push_back(parameter);
  return all;
}

/// Leaves of this stage's own graph, sharing storage with what came in.
tensor_list make_leaves(const tensor_list& inputs, bool with_gradient) {
  tensor_list leaves;
  for (const auto& input : inputs) {
    auto leaf = input.detach();
    if (with_gradient && leaf.is_floating_point())
      leaf.requires_grad_(true);
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

std::vector<torch::autograd::Edge> edges_of(const tensor_list& outputs) {
  std::vector<torch::autograd::Edge> edges;
  for (const auto& output : outputs)
    edges.push_back(output.requires_grad()
                      ? torch::autograd::impl::gradient_edge(output)
                      : torch::autograd::Edge{});
  return edges;
}

void run_engine(const saved_forward& saved, const tensor_list& gradients) {
  torch::autograd::edge_list roots;
  torch::autograd::variable_list values;
  for (std::size_t i = 0; i < saved.roots.size(); ++i) {
    if (!saved.roots[i].is_valid() || !gradients[i].defined())
      continue;
    roots.push_back(saved.roots[i]);
    values.push_back(gradients[i]);
  }
  if (!roots.empty())
    torch::autograd::Engine::get_default_engine().execute(
      roots, values, /*keep_graph=*/false, /*create_graph=*/false,
      /*accumulate_grad=*/true, {});
}

tensor_list take_gradients(tensor_list& leaves) {
  tensor_list gradients;
  for (auto& leaf : leaves) {
    gradients.push_back(leaf.requires_grad() && !leaf.grad().defined()
                          ? at::zeros_like(leaf)
                          : (leaf.requires_grad()
                               ? std::move(leaf.mutable_grad())
                               : at::Tensor{}));
  }
  return gradients;
}

/// Publishes a forward's observed tensors and the gradients that their hooks
/// see; a recomputed forward publishes nothing a second time.
class stage_observer final : public observer {
 public:
  stage_observer(const module_stage_options& options, const module_names& names,
                 event_source source, bool publish,
                 std::vector<named_value>& metrics)
    : options_(options),
      names_(names),
      source_(source),
      wants_(publish && options.wants_tensors && options.wants_tensors(source)),
      counts_(publish),
      metrics_(metrics) {}

  bool wants_tensors() const override { return wants_; }

  void tensor(const torch::nn::Module& module,
              const at::Tensor& output) override {
    const auto found = names_.find(&module);
    if (found == names_.end())
      return;
    options_.publish({source_, found->second, false, output.detach()});
    if (!output.requires_grad())
      return;
    output.register_hook([publish = options_.publish, source = source_,
                          name = found->second](const at::Tensor& gradient) {
      publish({source, name, true, gradient.detach()});
    });
  }

  void metric(const std::string& name, double value, double count) override {
    if (counts_)
      merge(metrics_, {name, value, count});
  }

 private:
  const module_stage_options& options_;
  const module_names& names_;
  event_source source_;
  bool wants_;
  bool counts_;
  std::vector<named_value>& metrics_;
};

}  // namespace

module_stage::module_stage(std::shared_ptr<layer_sequence> module,
                           module_stage_options options)
  : module_(std::move(module)),
    options_(std::move(options)),
    names_(module_->names()),
    parameters_(parameters_of(*module_)),
    optimizer_(make_optimizer(options_.optimizer, parameters_)),
    saved_(fmt::format("stage {}", options_.index)) {}

void module_stage::begin_step(const step_settings& settings) {
  settings_ = settings;
  result_ = {};
  saved_.clear();
  module_->train(settings.training());
  if (settings.training())
    for (auto& parameter : parameters_)
      parameter.mutable_grad() = at::Tensor{};
}

module_stage::outcome module_stage::run(const tensor_list& inputs,
                                        const microbatch_data& data) {
  outcome done;
  done.outputs = module_->forward(inputs, data.arguments);
  if (options_.loss) {
    done.losses = (*options_.loss)(done.outputs, data);
    done.outputs = {weighted_sum(done.losses)};
  }
  if (at::GradMode::is_enabled()) {
    done.saved.roots = edges_of(done.outputs);
    done.saved.inputs = inputs;
  }
  return done;
}

module_stage::outcome module_stage::run_observed(microbatch_key key,
                                                 const tensor_list& inputs,
                                                 const microbatch_data& data,
                                                 bool publish) {
  event_source source;
  source.step = settings_.step;
  source.phase = settings_.phase;
  source.data_rank = options_.data_rank;
  source.stage = options_.index;
  source.microbatch = key.microbatch;
  source.slice = key.slice;
  stage_observer observer(options_, names_, source, publish, result_.metrics);
  const observer_scope scope(&observer);
  return run(inputs, data);
}

tensor_list module_stage::forward(microbatch_key key, tensor_list inputs,
                                  const microbatch_data& data) {
  const bool keeps_graph = settings_.training() && !options_.recompute;
  const at::AutoGradMode mode(keeps_graph);
  auto done = run_observed(
    key, make_leaves(inputs, keeps_graph && !options_.first), data, true);
  if (options_.loss) {
    count_losses(done.losses);
    done.saved.loss_like = done.outputs[0].detach();
    done.outputs.clear();
  }
  if (settings_.training()) {
    if (options_.recompute) {
      done.saved.inputs = std::move(inputs);
      done.saved.data = data;
      done.saved.recompute = true;
    }
    saved_.put(key, std::move(done.saved));
  }
  for (auto& output : done.outputs)
    output = output.detach();
  return std::move(done.outputs);
}

tensor_list module_stage::backward(op_kind kind, microbatch_key key,
                                   tensor_list output_gradients) {
  if (kind != op_kind::backward)
    throw error(error_code::invalid_argument,
                "this stage runs full backwards (B) only; use a schedule "
                "without I and W");
  auto saved = saved_.take(key);
  if (options_.loss)
    output_gradients = {
      at::full_like(saved.loss_like, settings_.loss_gradient)};
  if (saved.recompute) {
    const at::AutoGradMode with_graph(true);
    const auto data = std::move(saved.data);
    saved =
      run_observed(key, make_leaves(saved.inputs, !options_.first), data, false)
        .saved;
  }
  const at::NoGradGuard no_grad;
  run_engine(saved, output_gradients);
  return options_.first ? tensor_list{} : take_gradients(saved.inputs);
}

void module_stage::count_losses(const std::vector<loss_term>& terms) {
  const at::NoGradGuard no_grad;
  for (const auto& term : terms) {
    const auto value = term.value.item<double>();
    if (options_.halt_on_nan && !std::isfinite(value))
      fail(error_code::op_failed, "the loss '{}' is {}", term.name, value);
    merge(result_.losses, {term.name, value, term.count});
  }
}

void module_stage::update(double factor) {
  scale_gradients(parameters_, factor);
  optimizer_->step(settings_.learning_rate);
}

stage_result module_stage::end_step() {
  saved_.require_empty();
  return std::move(result_);
}

}  // namespace troupe
