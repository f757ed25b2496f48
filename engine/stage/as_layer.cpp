#include "troupe/engine/stage/as_layer.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "troupe/base/fail.hpp"
#include "troupe/base/fnv_hash.hpp"

namespace troupe {

adapted_module::adapted_module(std::shared_ptr<torch::nn::Module> module,
                               function run)
  : module_(std::move(module)), run_(std::move(run)) {
  for (const auto& item : module_->named_parameters(/*recurse=*/false))
    register_parameter(item.key(), item.value(), item.value().requires_grad());
  for (const auto& item : module_->named_buffers(/*recurse=*/false))
    register_buffer(item.key(), item.value());
  for (const auto& item : module_->named_children())
    register_module(item.key(), item.value());
}

void adapted_module::train(bool on) {
  stage_module::train(on);
  module_->train(on);
}

namespace {

at::Generator& default_generator() {
  return const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator());
}

}  // namespace

seeded_scope::seeded_scope(const std::string& text) {
  auto& generator = default_generator();
  const std::scoped_lock lock(generator.mutex());
  former_state_ = generator.get_state();
  fnv_hash seed;
  seed.add(text);
  generator.set_current_seed(seed.value());
}

seeded_scope::~seeded_scope() {
  auto& generator = default_generator();
  const std::scoped_lock lock(generator.mutex());
  generator.set_state(former_state_);
}

void adapting::refuse_inputs(const torch::nn::Module& module,
                             std::size_t inputs) {
  fail(
    error_code::invalid_argument,
    "{} has no forward for {} tensors: the layer before has so many outputs; "
    "name those that it takes in `layer::reads`",
    module.name(), inputs);
}

}  // namespace troupe
