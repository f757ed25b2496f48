#include "troupe/engine/events/observer.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/events/measured_memory.hpp"

namespace troupe {

namespace {

/// "linear_layer" for "troupe::(anonymous namespace)::linear_layer".
std::string class_name_of(const torch::nn::Module& module) {
  const auto name = module.name();
  const auto colon = name.rfind("::");
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

std::shared_ptr<const tensor_owner> shared(tensor_owner subject) {
  return std::make_shared<const tensor_owner>(std::move(subject));
}

tensor_record record_of(tensor_kind kind,
                        std::shared_ptr<const tensor_owner> owner) {
  return {.kind = kind, .owner = std::move(owner)};
}

class stopwatch {
 public:
  explicit stopwatch(std::int64_t& sum) : sum_(sum), begin_(now_ns()) {}
  ~stopwatch() { sum_ += now_ns() - begin_; }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

 private:
  std::int64_t& sum_;
  std::int64_t begin_;
};

}  // namespace

observer::observer(const std::vector<module_entry>& modules,
                   parameter_list parameters, publisher publish,
                   rank_device* device)
  : publish_(std::move(publish)),
    op_memory_(std::make_unique<measured_memory>()),
    step_memory_(std::make_unique<measured_memory>()),
    device_(device) {
  if (device_)
    on_device_.emplace(device_->hardware()->kernels(), device_->device());
  for (const auto& [module, name] : modules) {
    watched entry{shared({name, class_name_of(*module)}), {}, {}, {}, {}, {}};
    for (const auto& item : module->named_parameters(/*recurse=*/false))
      entry.weights.emplace_back(item.key(), item.value());
    modules_.emplace(module, std::move(entry));
  }
  for (auto& [name, value] : parameters)
    parameters_.push_back({shared({name}), value, {}, {}});
}

observer::~observer() = default;

void observer::observe_shard(const std::vector<parameter_part>& parts,
                             std::int32_t shard, std::int32_t shards) {
  parameters_.clear();
  for (const auto& part : parts)
    parameters_.push_back(
      {shared({part.name, {}, part.shape}), part.value, {}, {}});
  shard_ = shard;
  shards_ = shards;
  applied_interest_.reset();
}

void observer::begin_step(std::shared_ptr<const tensor_interest> interest,
                          double unscale, step_reading reading) {
  interest_ = std::move(interest);
  unscale_ = unscale;
  reading_ = reading;
  hit_ = false;
  watches_ = false;
  step_memory_->clear();
  forget_leaves();
  if (!interest_ || interest_ == applied_interest_)
    return;
  const stopwatch cost(cost_);
  applied_interest_ = interest_;
  module_kinds_ = false;
  for (auto& [key, module] : modules_) {
    const auto needs = [&](tensor_kind kind) {
      const auto found = interest_->needs(kind, module.owner->name);
      module_kinds_ = module_kinds_ || found != tensor_needs::none;
      return found;
    };
    module.activation = needs(tensor_kind::activation);
    module.input = needs(tensor_kind::input);
    module.weight = needs(tensor_kind::weight);
    module.activation_gradient = needs(tensor_kind::activation_gradient);
  }
  for (auto& parameter : parameters_) {
    const auto& name = parameter.owner->name;
    parameter.parameter = interest_->needs(tensor_kind::parameter, name);
    parameter.gradient = interest_->needs(tensor_kind::gradient, name);
  }
  loss_needs_ = interest_->needs(tensor_kind::loss, "");
}

void observer::begin_op(const event_source& source, pass pass,
                        std::int64_t samples) {
  pass_ = pass;
  watches_ = interest_ && module_kinds_;
  if (!interest_)
    return;
  event_.source = source;
  event_.backward = pass == pass::backward || pass == pass::forward_again;
  event_.samples = samples;
  event_.for_exempt = interest_->for_exempt();
  event_.reading = reading_;
  calls_ = 0;
}

void observer::end_op() {
  watches_ = false;
  op_memory_->clear();
  if (event_.tensors.empty() && event_.shards == 1)
    return;
  const stopwatch cost(cost_);
  if (!device_)
    return publish_(std::exchange(event_, {}));
  on_device_->launch();
  held_.emplace_back(std::exchange(event_, {}), std::exchange(expected_, {}));
}

void observer::flush() {
  if (held_.empty() && watched_rows_.empty())
    return;
  const stopwatch cost(cost_);
  const auto rows = on_device_->take(device_->compute());
  resolve_watched(rows);
  const auto samples = on_device_->take_samples(device_->compute());
  for (auto& [event, expected] : std::exchange(held_, {})) {
    for (const auto& [record, row, is_sample, factor] : expected) {
      auto& target = event.tensors[record];
      if (is_sample)
        target.sample = scaled(samples[row], factor);
      else
        target.statistics = factor == 1 ? rows[row] : scaled(rows[row], factor);
    }
    publish_(std::move(event));
  }
}

void observer::called(const torch::nn::Module& module,
                      const observed_values& inputs,
                      const observed_values& outputs) {
  const auto found = modules_.find(&module);
  if (found == modules_.end())
    return;
  const stopwatch cost(cost_);
  const auto& subject = found->second;
  if (pass_ == pass::forward) {
    record_weights(subject);
    record_values(subject, tensor_kind::input, subject.input, inputs);
    record_values(subject, tensor_kind::activation, subject.activation,
                  outputs);
    ++calls_;
  }
  follow_gradients(subject, outputs);
}

void observer::record_weights(const watched& module) {
  if (module.weight == tensor_needs::none)
    return;
  for (const auto& [name, value] : module.weights) {
    auto entry = record_of(tensor_kind::weight, module.owner);
    entry.part = name;
    record(std::move(entry), value, module.weight, *step_memory_);
  }
}

void observer::record_values(const watched& module, tensor_kind kind,
                             tensor_needs needs,
                             const observed_values& values) {
  if (needs == tensor_needs::none)
    return;
  for (const auto& value : values) {
    auto entry = record_of(kind, module.owner);
    entry.content = value.content;
    entry.index = value.index;
    entry.inner = value.inner;
    record(std::move(entry), value.tensor, needs, *op_memory_);
  }
}

void observer::follow_gradients(const watched& module,
                                const observed_values& outputs) {
  if (module.activation_gradient == tensor_needs::none)
    return;
  if (!at::GradMode::is_enabled())
    return;
  for (const auto& output : outputs) {
    if (!output.tensor.defined() || !output.tensor.requires_grad())
      continue;
    if (output.tensor.is_leaf())
      follow_leaf(module, output);
    else
      output.tensor.register_hook(
        [this, &module,
         place =
           observed_value{{}, output.content, output.index, output.inner}](
          const at::Tensor& gradient) {
          gradient_arrived(module, place, gradient);
        });
  }
}

struct observer::followed_leaf {
  struct call {
    const watched* module;
    observed_value place;
    std::int32_t microbatch;
    std::int16_t slice;
  };
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> what;
  std::vector<call> calls = {};
};

void observer::follow_leaf(const watched& module,
                           const observed_value& output) {
  auto& leaf = leaves_[output.tensor.unsafeGetTensorImpl()];
  if (!leaf) {
    leaf = std::make_shared<followed_leaf>(followed_leaf{
      decltype(followed_leaf::what)(output.tensor.getIntrusivePtr())});
    // The leaf may outlive this observer, the only owner of its record.
    output.tensor.register_hook(
      [this, observed_leaf = std::weak_ptr(leaf)](const at::Tensor& gradient) {
        if (const auto followed = observed_leaf.lock())
          leaf_arrived(*followed, gradient);
      });
  }
  leaf->calls.push_back({&module,
                         {{}, output.content, output.index, output.inner},
                         event_.source.microbatch,
                         event_.source.slice});
}

/// Handles calls whose backward runs now; others' gradients are yet to come.
void observer::leaf_arrived(followed_leaf& leaf, const at::Tensor& gradient) {
  std::erase_if(leaf.calls, [&](const followed_leaf::call& call) {
    if (call.microbatch != event_.source.microbatch
        || call.slice != event_.source.slice)
      return false;
    gradient_arrived(*call.module, call.place, gradient);
    return true;
  });
}

void observer::forget_leaves() {
  std::erase_if(leaves_, [](auto& item) {
    item.second->calls.clear();
    return item.second->what.expired();
  });
}

void observer::gradient_arrived(const watched& module,
                                const observed_value& subject,
                                const at::Tensor& gradient) {
  if (!watches_ || pass_ != pass::backward)
    return;
  const stopwatch cost(cost_);
  record_values(module, tensor_kind::activation_gradient,
                module.activation_gradient,
                {{gradient, subject.content, subject.index, subject.inner}});
  unscale_last(unscale_);
  ++calls_;
}

bool observer::reads_output(const torch::nn::Module& module) const {
  const auto found = modules_.find(&module);
  return pass_ == pass::forward && found != modules_.end()
         && found->second.activation != tensor_needs::none;
}

bool observer::reads_gradient(const torch::nn::Module& module) const {
  const auto found = modules_.find(&module);
  return found != modules_.end()
         && found->second.activation_gradient != tensor_needs::none;
}

void observer::gradient(const torch::nn::Module& module,
                        const at::Tensor& value) {
  const auto found = modules_.find(&module);
  if (found != modules_.end()
      && found->second.activation_gradient != tensor_needs::none)
    gradient_arrived(found->second, {}, value);
}

void observer::loss(const std::string& name, const at::Tensor& value) {
  left(value);
  if (!interest_ || loss_needs_ == tensor_needs::none)
    return;
  auto& owner = losses_[name];
  if (!owner)
    owner = shared({name});
  record(record_of(tensor_kind::loss, owner), value, loss_needs_, *op_memory_);
  ++calls_;
}

void observer::parameters(double unscale) {
  if (!interest_)
    return;
  const stopwatch cost(cost_);
  event_.shard = shard_;
  event_.shards = shards_;
  for (const auto& parameter : parameters_) {
    if (parameter.parameter != tensor_needs::none)
      record(record_of(tensor_kind::parameter, parameter.owner),
             parameter.value, parameter.parameter, *step_memory_);
    const auto& gradient = parameter.value.grad();
    if (parameter.gradient == tensor_needs::none || !gradient.defined())
      continue;
    record(record_of(tensor_kind::gradient, parameter.owner), gradient,
           parameter.gradient, *op_memory_);
    unscale_last(unscale);
  }
}

void observer::metric(const std::string& name, double value, double count) {
  if (pass_ != pass::forward_again)
    merge(metrics_, {name, value, count});
}

std::vector<named_value> observer::take_metrics() {
  return std::exchange(metrics_, {});
}

std::int64_t observer::take_cost() {
  return std::exchange(cost_, 0);
}

}  // namespace troupe
