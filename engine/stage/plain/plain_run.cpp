#include "troupe/engine/stage/plain/plain_run.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/autocast.hpp"
#include "troupe/engine/stage/module/on_device.hpp"
#include "troupe/engine/stage/module/slices.hpp"
#include "troupe/engine/stage/random_draws.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"

namespace troupe {

namespace {

tensor_list copies_of(const tensor_list& tensors) {
  tensor_list all;
  for (const auto& tensor : tensors)
    all.push_back(tensor.detach().clone());
  return all;
}

void set_values(const tensor_list& parameters, const tensor_list& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].detach().copy_(values[i]);
}

void require_counts(const plain_options& o) {
  if (o.microbatches < 1 || o.data_parallel < 1 || o.slices < 1
      || o.updates.every < 0)
    fail(error_code::invalid_argument,
         "a plain loop of {} microbatches in {} slices, {} replicas, an update "
         "every {} microbatches; use 1 or more, and for one update 0",
         o.microbatches, o.slices, o.data_parallel, o.updates.every);
}

}  // namespace

plain_run::plain_run(const model& layers, plain_options options)
  : plain_run(compute_scope(options.intra_op_threads), layers,
              std::move(options)) {}

plain_run::plain_run(const compute_scope&, const model& layers,
                     plain_options options)
  : options_(std::move(options)),
    module_(std::make_shared<layer_sequence>(
      layers, layer_range{0, static_cast<std::int32_t>(layers.size())})),
    counter_(item_counter_of(layers, options_.numerics)),
    scale_(options_.numerics.loss_scale) {
  require_counts(options_);
  require_legal(layers);
  if (options_.numerics.autocast)
    casts_ = c10::make_intrusive<weight_casts>();
  const auto ties = ties_of(layers);
  aliases_ = aliases_of(ties);
  require_own_names(state_dict());
  distinct_parameters().add(module_->parameters_by_name());
  require_legal(options_.numerics);
  const auto settings = options_.numerics.parameters;
  options_.numerics = with_settings_of_owners(options_.numerics, ties);
  std::vector<std::string> names;
  for (const auto& [name, value] : parameters())
    names.push_back(name);
  require_matching(settings, names);
  if (options_.updates.every > 0 && options_.numerics.needs_norm())
    fail(error_code::invalid_argument,
         "updates within a step use their own gradients alone; clipping and a "
         "dynamic loss scale need all gradients of a step");
  if (const auto problem = module_->problem_in_slices();
      options_.slices > 1 && !problem.empty())
    fail(error_code::invalid_argument, "{} slices of a microbatch, and {}",
         options_.slices, problem);
  module_->convert(options_.numerics.dtypes);
  const auto scope = enter();
  if (options_.device)
    move_to_device(*module_, options_.device->compute());
  const auto updated = trained(*module_);
  values_ = values_of(updated);
  tied_ = tied_among(trained_ties(ties, options_.numerics.parameters), updated);
  norm_parameters_ = norm_parameters_of(updated, tied_);
  optimizer_ = std::make_unique<optimizer>(
    options_.numerics.optimizer, updated, options_.numerics.parameters,
    options_.numerics.offload_optimizer ? options_.device : nullptr);
  if (options_.updates.every > 0)
    find_stages(layers);
  if (options_.device)
    options_.device->compute().drain();
}

/// Throws `invalid_argument` if the stages do not hold all layers.
void plain_run::find_stages(const model& layers) {
  const auto& updates = options_.updates;
  for (std::size_t s = 0; s < updates.stages.size(); ++s)
    stage_of_.resize(
      stage_of_.size()
        + trained(layer_sequence(layers, updates.stages[s])).size(),
      static_cast<std::int32_t>(s));
  if (!updates.version || stage_of_.size() != values_.size())
    fail(error_code::invalid_argument,
         "a plain loop of updates within a step needs stages that hold all "
         "layers, and the version that each microbatch reads");
}

/// The parameters that are not frozen.
parameter_list plain_run::trained(const layer_sequence& module) const {
  const auto all = module.parameters_by_name();
  freeze(all, options_.numerics.parameters);
  return trainable(all);
}

std::unique_ptr<stream_scope> plain_run::enter() const {
  return options_.device ? options_.device->compute().enter() : nullptr;
}

std::vector<loss_term> plain_run::losses_of_microbatch(
  const microbatch_data& source) {
  const auto data =
    options_.device ? to_device(source, options_.device->compute()) : source;
  const autocast_scope casts(
    options_.numerics.autocast,
    options_.device ? options_.device->device().type() : c10::kCPU);
  const weight_casts_scope shared(casts_);
  std::vector<loss_term> losses;
  for (const auto& terms :
       module_->run({}, data, &options_.numerics.loss).losses)
    std::ranges::move(optimised(terms), std::back_inserter(losses));
  return losses;
}

plain_run::counted_items plain_run::count_items(const data_function& load,
                                                std::int32_t first,
                                                std::int32_t last) const {
  const auto replicas = options_.data_parallel;
  counted_items items{{{}, replicas, options_.slices}, {}};
  if (!counter_ || (counts_equally_ && options_.slices == 1))
    return items;
  for (std::int32_t d = 0; d < replicas; ++d)
    for (auto k = first; k < last; ++k) {
      const auto index = d * options_.microbatches + k;
      add(items.update.counts,
          items.by_microbatch[index] = counter_(load(index)));
    }
  return items;
}

void plain_run::accumulate(const data_function& load,
                           const counted_items& items, std::int32_t replica,
                           std::int8_t copy, std::int32_t first,
                           std::int32_t last, result& outcome) {
  for (auto k = first; k < last; ++k) {
    if (!options_.copy_of.empty()
        && options_.copy_of.at(static_cast<std::size_t>(k)) != copy)
      continue;
    if (!versions_.empty())
      read_versions(k);
    const auto index = replica * options_.microbatches + k;
    const auto own = items.by_microbatch.find(index);
    auto data = load(index);
    if (own != items.by_microbatch.end())
      data = with_items(std::move(data), counter_, own->second, items.update);
    accumulate(data, index);
    outcome.tokens += data.tokens;
  }
}

/// Runs a slice's forward, and returns where its backward starts.
backward_roots plain_run::roots_of(const microbatch_data& part,
                                   random_draws& draws) {
  const double microbatches = microbatches_of_update();
  const loss_seeds seeds{
    scale_.value(), scale_.value() / (microbatches * options_.slices),
    options_.numerics.weighting == loss_weighting::microbatches};
  draws.slice = current_slice().index;
  const draws_scope random(&draws);
  backward_roots roots;
  for (const auto& loss : losses_of_microbatch(part)) {
    const auto seed = seed_of(loss, part, draws.slice, seeds);
    roots.add(torch::autograd::impl::gradient_edge(loss.value), seed);
    losses_.push_back(detached_loss(loss));
    if (seeds.all_equal) {
      losses_.back().count = seed.defined() ? 1 : 0;
      losses_.back().counted.reset();
    }
  }
  return roots;
}

void plain_run::run(const backward_roots& roots) {
  roots.run();
  if (options_.numerics.accumulate_in_fp32)
    widen_gradients(values_);
}

void plain_run::accumulate(const microbatch_data& data, std::int64_t index) {
  random_draws draws{.seed = options_.numerics.seed,
                     .step = step_,
                     .microbatch = position_ + index,
                     .device = options_.device.get()};
  if (options_.slices == 1)
    run(roots_of(data, draws));
  else
    accumulate_slices(data, draws);
}

void plain_run::accumulate_slices(const microbatch_data& data,
                                  random_draws& draws) {
  std::vector<std::pair<slice_pass, backward_roots>> passes;
  slice_carry_pointer carry;
  for (std::int32_t slice = 0; slice < options_.slices; ++slice) {
    const auto part = slice_of(data, slice, options_.slices);
    slice_pass pass(slice, options_.slices, carry,
                    sequence_length(part.inputs));
    const slice_scope scope(&pass);
    auto roots = roots_of(part, draws);
    carry = pass.for_later();
    passes.emplace_back(std::move(pass), std::move(roots));
  }
  slice_carry_pointer later;
  for (; !passes.empty(); passes.pop_back()) {
    auto& [pass, roots] = passes.back();
    pass.add_roots(roots, later.get());
    run(roots);
    roots = {};
    tensor_list gradients;
    for (const auto& leaf : pass.leaves())
      gradients.push_back(std::move(leaf.mutable_grad()));
    later = pass.gradients_for_earlier(gradients, later.get());
  }
}

/// Returns the weighted sum of the losses' means; on a device, after all work
/// of its stream.
named_value plain_run::take_losses() {
  const at::NoGradGuard no_grad;
  const auto terms = std::exchange(losses_, {});
  std::map<std::string, double> weights;
  for (const auto& term : terms)
    weights[term.name] = term.weight;
  std::vector<named_value> means;
  for (const auto& loss : read_losses(terms, options_.device.get()))
    merge(means, loss);
  named_value sum{"loss", 0, 0};
  for (const auto& mean : means) {
    sum.value += weights.at(mean.name) * mean.value;
    sum.count = std::max(sum.count, mean.count);
  }
  return sum;
}

void plain_run::average(tensor_lists members) {
  const at::NoGradGuard no_grad;
  const gradient_mean mean(options_.data_parallel, options_.numerics.division);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto own = values_[i].scalar_type();
    const auto type = options_.numerics.reduces_in_fp32() ? widened(own) : own;
    tensor_list gradients;
    for (const auto& member : members)
      gradients.push_back(members.size() > 1 && member[i].defined()
                            ? member[i].to(type)
                            : member[i]);
    values_[i].mutable_grad() = mean.of(gradients);
  }
}

void plain_run::sum_tied() {
  tied_sum work{{take_gradients(values_), values_}, tied_};
  for (const auto& [tie, holders] : holders_of(work))
    troupe::sum_tied(holders);
  put_gradients(values_, std::move(work.gradients));
}

plain_loop::result plain_run::step(const data_function& load,
                                   bool counts_equally) {
  const compute_scope computes(options_.intra_op_threads);
  const at::AutoGradMode with_graph(true);
  const auto scope = enter();
  module_->train();
  result outcome;
  losses_.clear();
  counts_equally_ = counts_equally;
  ++step_;
  const auto microbatches = options_.microbatches;
  const auto group = microbatches_of_update();
  if (options_.updates.every > 0)
    versions_ = {copies_of(values_)};
  try {
    for (std::int32_t first = 0; first < microbatches; first += group)
      accumulate_update(load, first, std::min(first + group, microbatches),
                        outcome);
  } catch (...) {
    --step_;
    throw;
  }
  versions_.clear();
  position_ += std::int64_t{options_.data_parallel} * microbatches;
  const auto loss = take_losses();
  outcome.loss = loss.value;
  outcome.counted = loss.count;
  outcome.updated = outcome.updated && loss.counts();
  scale_.note(std::isfinite(outcome.gradient_norm), outcome.updated);
  if (scale_.skipped_in_vain() > 0)
    fail_in_vain(scale_, {.step = step_,
                          .loss = outcome.loss,
                          .gradient = outcome.not_finite,
                          .parameter = first_not_finite(parameters())});
  return outcome;
}

/// Makes one update from its microbatches of all replicas and copies.
void plain_run::accumulate_update(const data_function& load, std::int32_t first,
                                  std::int32_t last, result& outcome) {
  tensor_lists members;
  take_gradients(values_);
  const auto items = count_items(load, first, last);
  const auto& copy_of = options_.copy_of;
  const int copies = copy_of.empty() ? 1 : 1 + std::ranges::max(copy_of);
  for (std::int32_t d = 0; d < options_.data_parallel; ++d)
    for (std::int8_t copy = 0; copy < copies; ++copy) {
      accumulate(load, items, d, copy, first, last, outcome);
      members.push_back(take_gradients(values_));
    }
  average(std::move(members));
  sum_tied();
  update(outcome);
}

void plain_run::update(result& outcome) {
  if (!versions_.empty())
    set_values(values_, versions_.back());
  const auto type = options_.numerics.gradient_norm;
  const auto powers =
    gradient_powers(values_of(norm_parameters_), type, options_.device.get());
  outcome.gradient_norm = norm_of(powers, type) / scale_.value();
  if (const auto last = last_not_finite(powers); last >= 0)
    outcome.not_finite =
      norm_parameters_.at(static_cast<std::size_t>(last)).first;
  outcome.learning_rate = options_.numerics.learning_rate.at(
    scale_.next_update(step_), base_learning_rate(options_.numerics.optimizer));
  outcome.updated = !scale_.dynamic() || std::isfinite(outcome.gradient_norm);
  if (outcome.updated) {
    scale_gradients(values_,
                    clip_factor(outcome.gradient_norm, options_.numerics.clip)
                      / scale_.value());
    optimizer_->step(outcome.learning_rate);
  }
  if (casts_)
    casts_->clear();
  if (!versions_.empty())
    versions_.push_back(copies_of(values_));
}

/// Gives each stage's parameters the values that a microbatch reads there.
void plain_run::read_versions(std::int32_t microbatch) {
  tensor_list values;
  for (std::size_t i = 0; i < values_.size(); ++i)
    values.push_back(versions_.at(static_cast<std::size_t>(
      options_.updates.version(stage_of_[i], microbatch)))[i]);
  set_values(values_, values);
}

named_value plain_run::evaluate(const data_function& load, std::int64_t count) {
  const compute_scope computes(options_.intra_op_threads);
  const at::NoGradGuard no_grad;
  const auto scope = enter();
  module_->eval();
  losses_.clear();
  for (std::int64_t k = 0; k < count; ++k)
    for (const auto& loss : losses_of_microbatch(load(k)))
      losses_.push_back(detached_loss(loss));
  auto loss = take_losses();
  loss.value = static_cast<float>(loss.value);
  return loss;
}

tensor_list plain_run::infer(const tensor_list& inputs) {
  const compute_scope computes(options_.intra_op_threads);
  return run_on_host(*module_, inputs, {}, options_.numerics.autocast,
                     options_.device.get())
    .outputs;
}

parameter_list plain_run::holders() const {
  return module_->parameters_by_name();
}
parameter_list plain_run::state_dict() const {
  return module_->state_dict();
}

}  // namespace troupe
