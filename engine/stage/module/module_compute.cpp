#include "troupe/engine/stage/module/module_compute.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/autocast.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"
#include "troupe/engine/stage/module/observed_work.hpp"
#include "troupe/engine/stage/parameters/module_parameters.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"

namespace troupe {

namespace {

/// A leaf of this stage's own graph, sharing storage with an input.
at::Tensor make_leaf(const at::Tensor& input) {
  if (!input.defined())
    return input;
  auto leaf = input.detach();
  if (at::GradMode::is_enabled() && may_require_gradient(leaf))
    leaf.requires_grad_(true);
  return leaf;
}

tensor_lists aliases_of_leaves(tensor_lists leaves) {
  for (auto& use : leaves)
    for (auto& each : use)
      if (requires_gradient(each))
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

}  // namespace

module_compute::module_compute(std::shared_ptr<layer_sequence> module,
                               module_stage_options options)
  : module_(std::move(module)),
    options_(std::move(options)),
    parameters_(values_of(trainable(module_->parameters_by_name()))),
    buffers_(values_of(module_->buffers_by_name())),
    observer_(module_->modules_by_name(), module_->parameters_by_name(),
              options_.publish, options_.device.get()),
    losses_(options_.numerics, options_.device.get()) {
  if (options_.numerics.autocast)
    casts_ = c10::make_intrusive<weight_casts>();
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
  if (settings_.draw_keys.defined())
    options_.device->compute().uses(settings_.draw_keys);
  result_ = {};
  if (casts_)
    casts_->clear();
  losses_.begin(settings);
  observer_.begin_step(settings.interest,
                       1 / (settings.loss_scale * settings.data_ranks),
                       settings.reading);
  module_->train(settings.training());
  buffer_versions_ = versions_of(buffers_);
  drop_ended_batches();
}

/// Makes separate leaves for each use of an input.
tensor_lists module_compute::leaves_of(const tensor_lists& inputs) const {
  tensor_lists leaves;
  const auto& crossings = module_->interface().inputs;
  for (std::size_t c = 0; c < crossings.size(); ++c)
    for (auto& use : module_->by_use(crossings[c], inputs.at(c))) {
      std::ranges::transform(use, use.begin(), make_leaf);
      leaves.push_back(std::move(use));
    }
  return leaves;
}

module_compute::forward_result module_compute::run(
  tensor_lists leaves, const microbatch_data& data) {
  const autocast_scope casts(
    options_.numerics.autocast,
    options_.device ? options_.device->device().type() : c10::kCPU);
  const weight_casts_scope shared(casts_);
  // Autocast shares one cast of a leaf among its uses, and would add up their
  // gradients in the lower precision; in an unsplit model these are no leaves.
  auto outputs = module_->run(
    options_.numerics.autocast ? aliases_of_leaves(leaves) : leaves, data,
    settings_.generation ? nullptr : &options_.numerics.loss);
  forward_result result;
  for (const auto& terms : outputs.losses) {
    save_losses(terms, data, result.saved);
    result.losses.insert(result.losses.end(), terms.begin(), terms.end());
  }
  if (at::GradMode::is_enabled()) {
    const auto& crossings = module_->interface().outputs;
    for (std::size_t c = 0; c < crossings.size(); ++c)
      for (const auto& use : module_->by_use(crossings[c], outputs.sent[c]))
        std::ranges::transform(
          use, std::back_inserter(result.saved.roots.emplace_back()), edge_of);
    result.saved.inputs = std::move(leaves);
  }
  result.sent = std::move(outputs.sent);
  if (settings_.generation && module_->has_last())
    result.outputs = std::move(outputs.outputs);
  return result;
}

void module_compute::save_losses(const std::vector<loss_term>& terms,
                                 const microbatch_data& data,
                                 saved_forward& saved) const {
  const loss_seeds seeds{
    settings_.loss_scale, settings_.loss_gradient,
    options_.numerics.weighting == loss_weighting::microbatches};
  for (const auto& term : optimised(terms)) {
    saved.losses.push_back(edge_of(term.value));
    if (at::GradMode::is_enabled())
      saved.seeds.push_back(seed_of(term, data, current_slice().index, seeds));
  }
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

/// The number among the step's microbatches of all replicas.
std::int64_t module_compute::number_of(microbatch_key key) const {
  return std::int64_t{options_.data_rank} * settings_.microbatches
         + key.microbatch;
}

/// Whether the microbatch counts, and does not only fill the step up.
bool module_compute::counts(microbatch_key key) const {
  return number_of(key) < settings_.counted;
}

random_draws module_compute::draws_of(microbatch_key key) const {
  return {.seed = options_.numerics.seed,
          .step = settings_.step,
          .microbatch = settings_.first_microbatch + number_of(key),
          .slice = key.slice,
          .device = options_.device.get(),
          .key = settings_.draw_keys.defined()
                   ? settings_.draw_keys.select(0, number_of(key))
                   : at::Tensor()};
}

module_compute::forward_result module_compute::run_observed(
  microbatch_key key, const tensor_lists& inputs, const microbatch_data& data,
  const slice_carry_pointer& earlier, observer::pass pass) {
  const auto& first = first_of(inputs, data);
  observer_.begin_op(source_of(key), pass, samples_of(first));
  const observer_scope scope(&observer_);
  const bool splits = at::GradMode::is_enabled() && settings_.splits_backward;
  auto store = splits ? c10::make_intrusive<weight_gradients>() : nullptr;
  const weight_gradients_scope layers(store);
  std::optional<slice_pass> slice;
  if (settings_.slices > 1 || settings_.generation)
    slice.emplace(key.slice, settings_.slices, earlier, sequence_length(first),
                  settings_.training());
  const slice_scope sliced(slice ? &*slice : nullptr);
  auto draws = draws_of(key);
  const draws_scope random(settings_.training() ? &draws : nullptr);
  auto result =
    observed(observer_, [&] { return run(leaves_of(inputs), data); });
  result.saved.store = std::move(store);
  result.saved.slice = std::move(slice);
  return result;
}

op_outputs module_compute::forward(microbatch_key key, tensor_lists inputs,
                                   const microbatch_data& data,
                                   stage_states states) {
  auto earlier = std::dynamic_pointer_cast<slice_carry>(states.carry);
  if (settings_.generation)
    return continue_sequences(key, inputs, data, std::move(earlier));
  if (settings_.slices > 1)
    return forward_slice(key, std::move(inputs),
                         slice_of(data, key.slice, settings_.slices),
                         std::move(earlier), states.offloads);
  return forward_slice(key, std::move(inputs), data, nullptr, states.offloads);
}

op_outputs module_compute::forward_slice(microbatch_key key,
                                         tensor_lists inputs,
                                         const microbatch_data& data,
                                         slice_carry_pointer earlier,
                                         bool offloads) {
  const bool recomputes = settings_.training() && options_.numerics.recompute;
  const bool keeps_graph = settings_.training() && !recomputes;
  const at::AutoGradMode mode(keeps_graph);
  const bool counted = counts(key);
  auto graph_tensors = offloads ? saved_for_offload() : nullptr;
  const saved_tensors_scope saves(keeps_graph ? graph_tensors : nullptr);
  const auto buffers =
    recomputes ? versions_of(buffers_) : std::vector<std::int64_t>{};
  auto result = run_observed(
    key, inputs, data, earlier,
    counted ? observer::pass::forward : observer::pass::forward_again);
  if (counted)
    observed(observer_, [&] {
      for (const auto& term : result.losses)
        observer_.loss(term.name, term.value);
      losses_.add(result.losses, data, key.slice == 0);
    });
  observer_.end_op();
  op_outputs outputs;
  if (result.saved.slice)
    outputs.states.carry = result.saved.slice->for_later();
  if (settings_.training()) {
    auto& saved = result.saved;
    saved.samples = samples_of(first_of(inputs, data));
    if (recomputes) {
      require_same_buffers(buffers);
      saved.inputs = std::move(inputs);
      saved.data = data;
      saved.earlier = std::move(earlier);
      saved.recompute = true;
      saved.sent = describe(flat(result.sent));
    }
    saved.graph_tensors = std::move(graph_tensors);
    saved.prepare_offload();
    outputs.states.context = std::make_shared<saved_forward>(std::move(saved));
  }
  for (auto& message : result.sent)
    for (auto& each : message)
      each = each.defined() ? each.detach() : each;
  outputs.tensors = std::move(result.sent);
  if (counted)
    watch(outputs);
  return outputs;
}

/// Notes in a watched step whether what leaves the op is finite.
void module_compute::watch(const op_outputs& outputs) {
  for (const auto& message : outputs.tensors)
    for (const auto& each : message)
      observer_.left(each);
}

std::shared_ptr<saved_tensors> module_compute::saved_for_offload() const {
  auto stays = values_of(module_->parameters_by_name());
  stays.insert(stays.end(), buffers_.begin(), buffers_.end());
  return std::make_shared<saved_tensors>(stays);
}

op_outputs module_compute::backward(op_kind kind, microbatch_key key,
                                    tensor_lists output_gradients,
                                    stage_states states) {
  if (kind == op_kind::weight_backward) {
    const at::NoGradGuard no_grad;
    run_weight_backward(state_of<deferred_backward>(states.deferred, key));
    if (options_.numerics.accumulate_in_fp32)
      widen_gradients(parameters_);
    return {};
  }
  auto& saved = state_of<saved_forward>(states.context, key);
  if (saved.recompute)
    run_again(key, saved);
  const at::NoGradGuard no_grad;
  observer_.begin_op(source_of(key), observer::pass::backward, saved.samples);
  auto outputs = observed(observer_, [&] {
    return run_engine(kind, saved, output_gradients,
                      dynamic_cast<const slice_carry*>(states.carry.get()));
  });
  if (options_.numerics.accumulate_in_fp32)
    widen_gradients(parameters_);
  observer_.end_op();
  watch(outputs);
  return outputs;
}

template <class State>
State& module_compute::state_of(const std::shared_ptr<stage_state>& base_state,
                                microbatch_key key) const {
  auto* state = dynamic_cast<State*>(base_state.get());
  if (state == nullptr)
    fail(error_code::internal,
         "stage {}: backward of microbatch {} slice {} without its forward's, "
         "or input backward's, context",
         options_.index, key.microbatch, key.slice);
  return *state;
}

void module_compute::show_parameters() {
  observer_.begin_op(source_of({-1, 0}), observer::pass::update, 0);
  observer_.parameters(1 / settings_.loss_scale);
  observer_.end_op();
}

/// Of a launched step, whose ops nobody sees, losses are looked at here.
bool module_compute::has_hit() {
  if (settings_.part == step_part::update)
    for (const auto& term : losses_.on_device())
      observer_.left(term.value);
  return observer_.has_hit();
}

bool module_compute::changed_buffers() const {
  return buffer_versions_ != versions_of(buffers_);
}

stage_result module_compute::end_step() {
  const bool is_recorded = settings_.part == step_part::gradients;
  if (is_recorded && casts_)
    casts_->clear();  // launches of the step write to their memory
  if (is_recorded)
    losses_.keep();
  else
    result_.losses = observed(observer_, [&] { return losses_.take(); });
  result_.equal_counts = {losses_.equal_counts().begin(),
                          losses_.equal_counts().end()};
  observer_.flush();
  result_.metrics = observer_.take_metrics();
  if (is_recorded && !result_.metrics.empty())
    fail(error_code::invalid_argument,
         "the model reports '{}', which is computed on the host",
         result_.metrics.front().name);
  result_.observe_ns = observer_.take_cost();
  result_.changed_buffers = changed_buffers();
  return std::move(result_);
}

stage make_module_stage(const std::shared_ptr<layer_sequence>& module,
                        const module_stage_options& options) {
  const auto all = module->parameters_by_name();
  freeze(all, options.numerics.parameters);
  auto compute = std::make_shared<module_compute>(module, options);
  const auto tied = tied_among(options.ties, trainable(all));
  const auto show = [compute] { compute->show_parameters(); };
  if (options.shards) {
    parameter_list frozen;
    for (const auto& each : all)
      if (!each.second.requires_grad())
        frozen.push_back(each);
    const auto shards = std::make_shared<sharded_parameters>(
      trainable(all), frozen, tied, options.numerics, *options.shards,
      options.device, show, compute->casts());
    compute->observe_shard(shards->parts(), *options.shards);
    return {compute, shards, shards};
  }
  return {compute, std::make_shared<module_parameters>(
                     trainable(all), options.numerics, tied, options.device,
                     show, options.keeps_versions)};
}

}  // namespace troupe
