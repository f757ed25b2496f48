#include "troupe/engine/stage/module_compute.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/autocast.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module_parameters.hpp"

namespace troupe {

namespace {

tensor_list parameters_of(const layer_sequence& module) {
  tensor_list all;
  for (const auto& [name, parameter] : module.parameters_by_name())
    all.push_back(parameter);
  return all;
}

/// A leaf of this stage's own graph, sharing storage with an input.
at::Tensor make_leaf(const at::Tensor& input, bool with_gradient) {
  if (!input.defined())
    return input;
  auto leaf = input.detach();
  if (with_gradient && leaf.is_floating_point())
    leaf.requires_grad_(true);
  return leaf;
}

tensor_lists aliases_of(tensor_lists leaves) {
  for (auto& use : leaves)
    for (auto& each : use)
      if (each.defined() && each.requires_grad())
        each = at::alias(each);
  return leaves;
}

const tensor_list& first_of(const tensor_lists& inputs,
                            const microbatch_data& data) {
  return inputs.empty() ? data.inputs : inputs.front();
}

std::int64_t samples_of(const tensor_list& inputs) {
  return inputs.empty() || !inputs[0].defined() || inputs[0].dim() == 0
           ? 1
           : inputs[0].size(0);
}

torch::autograd::Edge edge_of(const at::Tensor& output) {
  return output.defined() && output.requires_grad()
           ? torch::autograd::impl::gradient_edge(output)
           : torch::autograd::Edge{};
}

/// Where LibTorch's engine starts, and with which gradients.
struct backward_roots {
  void add(const torch::autograd::Edge& edge, const at::Tensor& gradient) {
    if (!edge.is_valid() || !gradient.defined())
      return;
    edges.push_back(edge);
    gradients.push_back(gradient);
  }
  void run() const {
    if (!edges.empty())
      torch::autograd::Engine::get_default_engine().execute(
        edges, gradients, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true, {});
  }

  torch::autograd::edge_list edges;
  torch::autograd::variable_list gradients;
};

/// Shows monitors what led to a failure; a failed device may be unable to.
void show_what_is_known(observer& observer) noexcept {
  try {
    observer.end_op();
    observer.flush();
  } catch (...) {
  }
}

/// Does an op's work; if it fails, monitors see what it has shown so far.
template <class Work>
auto observed(observer& observer, const Work& work) {
  try {
    return work();
  } catch (...) {
    show_what_is_known(observer);
    throw;
  }
}

}  // namespace

module_compute::module_compute(std::shared_ptr<layer_sequence> module,
                               module_stage_options options)
  : module_(std::move(module)),
    options_(std::move(options)),
    observer_(module_->modules_by_name(), module_->parameters_by_name(),
              options_.publish, options_.device.get()),
    saved_(fmt::format("stage {}", options_.index)) {
  std::size_t use = 0;
  const auto& outputs = module_->interface().outputs;
  for (std::size_t c = 0; c < outputs.size(); ++c)
    for (std::size_t u = 0; u < outputs[c].uses.size(); ++u)
      output_uses_.push_back({outputs[c].uses[u].reader, use++, c, u});
  std::ranges::sort(output_uses_, std::greater{}, [](const output_use& each) {
    return std::pair(each.reader, each.use);
  });
}

void module_compute::begin_step(const step_settings& settings) {
  settings_ = settings;
  result_ = {};
  on_device_.clear();
  saved_.clear();
  observer_.begin_step(settings.interest,
                       1 / (settings.loss_scale * settings.data_ranks));
  module_->train(settings.training());
  if (settings.part == step_part::update)
    on_device_ = kept_;
}

void module_compute::drop_kept() {
  kept_.clear();
  on_device_.clear();
  saved_.clear();
}

/// For each use of an input its own leaves.
tensor_lists module_compute::leaves_of(const tensor_lists& inputs,
                                       bool with_gradient) const {
  tensor_lists leaves;
  const auto& crossings = module_->interface().inputs;
  for (std::size_t c = 0; c < crossings.size(); ++c)
    for (const auto& tensors : module_->by_use(crossings[c], inputs.at(c))) {
      auto& of_use = leaves.emplace_back();
      for (const auto& each : tensors)
        of_use.push_back(make_leaf(each, with_gradient));
    }
  return leaves;
}

module_compute::outcome module_compute::run(tensor_lists leaves,
                                            const microbatch_data& data) {
  const autocast_scope casts(
    options_.numerics.autocast,
    options_.device ? options_.device->device().type() : c10::kCPU);
  // Autocast shares one cast of a leaf among its uses, and would add up their
  // gradients in the lower precision; in an unsplit model these are no leaves.
  auto ran =
    module_->run(options_.numerics.autocast ? aliases_of(leaves) : leaves, data,
                 &options_.numerics.loss);
  outcome done;
  const bool keeps_graph = at::GradMode::is_enabled();
  for (const auto& terms : ran.losses) {
    const auto optimised = weighted_sum(terms);
    done.saved.losses.push_back(edge_of(optimised));
    done.saved.losses_like.push_back(optimised.detach());
    done.losses.insert(done.losses.end(), terms.begin(), terms.end());
  }
  if (keeps_graph) {
    const auto& crossings = module_->interface().outputs;
    for (std::size_t c = 0; c < crossings.size(); ++c)
      for (const auto& tensors : module_->by_use(crossings[c], ran.sent[c])) {
        auto& edges = done.saved.roots.emplace_back();
        for (const auto& each : tensors)
          edges.push_back(edge_of(each));
      }
    done.saved.inputs = std::move(leaves);
  }
  done.sent = std::move(ran.sent);
  return done;
}

void module_compute::run_engine(const saved_forward& saved,
                                const tensor_lists& gradients) const {
  backward_roots roots;
  for (const auto& each : output_uses_) {
    const auto& edges = saved.roots.at(each.use);
    const auto& given = gradients.at(each.crossing);
    for (std::size_t i = 0; i < edges.size(); ++i)
      roots.add(edges[i], given.at(each.first + i));
  }
  for (std::size_t i = 0; i < saved.losses.size(); ++i)
    roots.add(saved.losses[i],
              at::full_like(saved.losses_like[i], settings_.loss_gradient));
  roots.run();
}

/// Of each crossing, by use; undefined where no loss depends on an input.
tensor_lists module_compute::take_gradients(tensor_lists& leaves) const {
  tensor_lists gradients;
  std::size_t next = 0;
  for (const auto& input : module_->interface().inputs) {
    auto& of_stage = gradients.emplace_back();
    for (std::size_t u = 0; u < input.uses.size(); ++u)
      for (auto& leaf : leaves.at(next++))
        of_stage.push_back(leaf.defined() && leaf.requires_grad()
                             ? std::move(leaf.mutable_grad())
                             : at::Tensor{});
  }
  return gradients;
}

event_source module_compute::source_of(microbatch_key key) const {
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

module_compute::outcome module_compute::run_observed(
  microbatch_key key, const tensor_lists& inputs, const microbatch_data& data,
  bool keeps_graph, observer::pass pass) {
  observer_.begin_op(source_of(key), pass, samples_of(first_of(inputs, data)));
  const observer_scope scope(&observer_);
  return observed(observer_,
                  [&] { return run(leaves_of(inputs, keeps_graph), data); });
}

tensor_lists module_compute::forward(microbatch_key key, tensor_lists inputs,
                                     const microbatch_data& data) {
  const bool keeps_graph = settings_.training() && !options_.numerics.recompute;
  const at::AutoGradMode mode(keeps_graph);
  auto done =
    run_observed(key, inputs, data, keeps_graph, observer::pass::forward);
  const auto samples = samples_of(first_of(inputs, data));
  count_losses(done.losses);
  observer_.end_op();
  if (settings_.training()) {
    if (options_.numerics.recompute)
      done.saved = {
        .inputs = std::move(inputs), .data = data, .recompute = true};
    done.saved.samples = samples;
    saved_.put(key, std::move(done.saved));
  }
  for (auto& sent : done.sent)
    for (auto& each : sent)
      each = each.detach();
  return std::move(done.sent);
}

tensor_lists module_compute::backward(op_kind kind, microbatch_key key,
                                      tensor_lists output_gradients) {
  if (kind != op_kind::backward)
    throw error(error_code::invalid_argument,
                "this stage runs full backwards (B) only; use a schedule "
                "without I and W");
  auto saved = saved_.take(key);
  const auto samples = saved.samples;
  if (saved.recompute) {
    const at::AutoGradMode with_graph(true);
    const auto data = std::move(saved.data);
    const auto inputs = std::move(saved.inputs);
    saved = run_observed(key, inputs, data, true, observer::pass::forward_again)
              .saved;
  }
  const at::NoGradGuard no_grad;
  observer_.begin_op(source_of(key), observer::pass::backward, samples);
  observed(observer_, [&] { run_engine(saved, output_gradients); });
  observer_.end_op();
  return take_gradients(saved.inputs);
}

void module_compute::count_losses(const std::vector<loss_term>& terms) {
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

void module_compute::count_loss(const std::string& name, double value,
                                double count) {
  if (options_.numerics.halt_on_nan && !std::isfinite(value)) {
    show_what_is_known(observer_);
    fail(error_code::op_failed, "the loss '{}' is {}", name, value);
  }
  merge(result_.losses, {name, value, count});
}

/// Reads losses from the device, once a step.
void module_compute::take_losses() {
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

void module_compute::show_parameters(const step_settings& settings) {
  observer_.begin_op(source_of({-1, 0}), observer::pass::update, 0);
  observer_.parameters(1 / settings.loss_scale);
  observer_.end_op();
}

stage_result module_compute::end_step() {
  saved_.require_empty();
  const bool keeps = settings_.part == step_part::gradients;
  if (keeps)
    kept_ = std::exchange(on_device_, {});
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

stage make_module_stage(const std::shared_ptr<layer_sequence>& module,
                        const module_stage_options& options) {
  auto compute = std::make_shared<module_compute>(module, options);
  auto parameters = std::make_shared<module_parameters>(
    parameters_of(*module), options.numerics.optimizer, options.device,
    [compute](const step_settings& settings) {
      compute->show_parameters(settings);
    });
  return {std::move(compute), std::move(parameters)};
}

}  // namespace troupe
