#include "troupe/engine/stage/module_stage.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/autocast.hpp"
#include "troupe/engine/stage/gradient_norm.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"

namespace troupe {

namespace {

tensor_list parameters_of(const layer_sequence& module) {
  tensor_list all;
  for (const auto& [name, parameter] : module.parameters_by_name())
    all.push_back(parameter);
  return all;
}

/// Leaves of this stage's own graph, sharing storage with the inputs.
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

std::int64_t samples_of(const tensor_list& inputs) {
  return inputs.empty() || inputs[0].dim() == 0 ? 1 : inputs[0].size(0);
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

/// Shows monitors what led to a failure; a failed device may be unable to.
void show_what_is_known(observer& by) noexcept {
  try {
    by.end_op();
    by.flush();
  } catch (...) {
  }
}

/// Does an op's work; if it fails, monitors see what it has shown so far.
template <class Work>
auto observed(observer& by, const Work& work) {
  try {
    return work();
  } catch (...) {
    show_what_is_known(by);
    throw;
  }
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

}  // namespace

module_stage::module_stage(std::shared_ptr<layer_sequence> module,
                           module_stage_options options)
  : module_(std::move(module)),
    options_(std::move(options)),
    parameters_(parameters_of(*module_)),
    observer_(module_->modules_by_name(), module_->parameters_by_name(),
              options_.publish, options_.device.get()),
    optimizer_(make_optimizer(options_.optimizer, parameters_)),
    saved_(fmt::format("stage {}", options_.index)) {}

void module_stage::begin_step(const step_settings& settings) {
  settings_ = settings;
  result_ = {};
  on_device_.clear();
  saved_.clear();
  observer_.begin_step(settings.interest,
                       1 / (settings.loss_scale * settings.data_ranks));
  module_->train(settings.training());
  if (settings.part == step_part::update)
    take_up_gradients();
  else if (settings.training())
    drop_gradients();
}

void module_stage::drop_gradients() {
  for (auto& parameter : parameters_)
    parameter.mutable_grad() = at::Tensor{};
}

void module_stage::keep_gradients() {
  kept_ = {};
  for (const auto& parameter : parameters_)
    kept_.gradients.push_back(parameter.grad());
  kept_.losses = std::exchange(on_device_, {});
}

void module_stage::take_up_gradients() {
  for (std::size_t i = 0; i < kept_.gradients.size(); ++i)
    parameters_[i].mutable_grad() = kept_.gradients[i];
  on_device_ = kept_.losses;
}

void module_stage::drop_kept() {
  kept_ = {};
  on_device_.clear();
  saved_.clear();
  drop_gradients();
}

module_stage::outcome module_stage::run(const tensor_list& inputs,
                                        const microbatch_data& data) {
  const autocast_scope casts(
    options_.autocast,
    options_.device ? options_.device->device().type() : c10::kCPU);
  outcome done;
  done.outputs = module_->forward(inputs, data.arguments);
  if (options_.loss) {
    done.losses = losses_of(*options_.loss, done.outputs, data);
    done.outputs = {weighted_sum(done.losses)};
  }
  if (at::GradMode::is_enabled()) {
    done.saved.roots = edges_of(done.outputs);
    done.saved.inputs = inputs;
  }
  return done;
}

event_source module_stage::source_of(microbatch_key key) const {
  event_source source;
  source.step = settings_.step;
  source.phase = settings_.phase;
  source.data_rank = options_.data_rank;
  source.rank = options_.rank;
  source.stage = options_.index;
  source.microbatch = key.microbatch;
  source.slice = key.slice;
  source.epoch = settings_.epoch;
  return source;
}

module_stage::outcome module_stage::run_observed(microbatch_key key,
                                                 const tensor_list& inputs,
                                                 const microbatch_data& data,
                                                 observer::pass pass) {
  observer_.begin_op(source_of(key), pass, samples_of(inputs));
  const observer_scope scope(&observer_);
  return observed(observer_, [&] { return run(inputs, data); });
}

tensor_list module_stage::forward(microbatch_key key, tensor_list inputs,
                                  const microbatch_data& data) {
  const bool keeps_graph = settings_.training() && !options_.recompute;
  const at::AutoGradMode mode(keeps_graph);
  auto done =
    run_observed(key, make_leaves(inputs, keeps_graph && !options_.first), data,
                 observer::pass::forward);
  if (options_.loss) {
    count_losses(done.losses);
    done.saved.loss_like = done.outputs[0].detach();
    done.outputs.clear();
  }
  observer_.end_op();
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
    saved = run_observed(key, make_leaves(saved.inputs, !options_.first), data,
                         observer::pass::forward_again)
              .saved;
  }
  const at::NoGradGuard no_grad;
  observer_.begin_op(source_of(key), observer::pass::backward,
                     samples_of(saved.inputs));
  observed(observer_, [&] { run_engine(saved, output_gradients); });
  observer_.end_op();
  return options_.first ? tensor_list{} : take_gradients(saved.inputs);
}

void module_stage::count_losses(const std::vector<loss_term>& terms) {
  const at::NoGradGuard no_grad;
  for (const auto& term : terms) {
    observer_.loss(term.name, term.value);
    if (options_.device)
      on_device_.push_back(
        {term.name, term.value.detach().to(at::kDouble), term.count, 0,
         term.counted.defined() ? term.counted.to(at::kDouble) : at::Tensor{}});
    else
      count_loss(term.name, term.value.item<double>(), count_of(term));
  }
}

void module_stage::count_loss(const std::string& name, double value,
                              double count) {
  if (options_.halt_on_nan && !std::isfinite(value)) {
    show_what_is_known(observer_);
    fail(error_code::op_failed, "the loss '{}' is {}", name, value);
  }
  merge(result_.losses, {name, value, count});
}

/// Reads losses from the device, once a step.
void module_stage::take_losses() {
  if (on_device_.empty())
    return;
  tensor_list values;
  for (const auto& term : on_device_) {
    values.push_back(term.value);
    if (term.counted.defined())
      values.push_back(term.counted);
  }
  const auto copy = to_host(at::stack(values), options_.device->compute());
  copy.ready->wait();
  const auto* next = copy.tensor.const_data_ptr<double>();
  for (const auto& term : std::exchange(on_device_, {})) {
    const auto value = *next++;
    count_loss(term.name, value, term.counted.defined() ? *next++ : term.count);
  }
}

void module_stage::show_parameters() {
  observer_.begin_op(source_of({-1, 0}), observer::pass::update, 0);
  observer_.parameters(1 / settings_.loss_scale);
  observer_.end_op();
}

void module_stage::update(double factor) {
  scale_gradients(parameters_, factor);
  optimizer_->step(settings_.learning_rate);
}

stage_result module_stage::end_step() {
  saved_.require_empty();
  const bool keeps = settings_.part == step_part::gradients;
  if (keeps)
    keep_gradients();
  else
    take_losses();
  observer_.flush();
  result_.metrics = observer_.take_metrics();
  if (keeps && !result_.metrics.empty())
    fail(error_code::invalid_argument,
         "the model reports '{}', which the host computes",
         result_.metrics.front().name);
  result_.observe_ns = observer_.take_cost();
  return std::move(result_);
}

}  // namespace troupe
