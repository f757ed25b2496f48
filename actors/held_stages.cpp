#include "troupe/actors/held_stages.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "troupe/actors/stored_state.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/stage/module/on_device.hpp"

namespace troupe {

namespace {

using instance_modules = std::vector<std::shared_ptr<layer_sequence>>;

/// The parameters of one copy of all stages that live here, in model order.
parameter_list parameters_of(const instance_modules& modules,
                             std::int32_t stages, std::int8_t copy = 0) {
  parameter_list all;
  for (std::int32_t s = 0; s < stages; ++s)
    if (const auto& module =
          modules[static_cast<std::size_t>(copy * stages + s)])
      std::ranges::move(module->parameters_by_name(), std::back_inserter(all));
  return all;
}

/// Parameters and buffers of the first copy.
parameter_list state_dict_of(const instance_modules& modules,
                             std::int32_t stages) {
  parameter_list all;
  for (std::int32_t s = 0; s < stages; ++s)
    if (const auto& module = modules[static_cast<std::size_t>(s)])
      std::ranges::move(module->state_dict(), std::back_inserter(all));
  return all;
}

}  // namespace

held_stages::held_stages(const trainer_setup& setup, const model& layers,
                         const plan& training)
  : setup_(setup),
    devices_(setup.options.devices, setup.options.overlap, setup.layout,
             training) {
  make_stages(layers, training);
  require_slices(training);
}

void held_stages::publish_to(observer::publisher publish) {
  outlet_->publish = std::move(publish);
}

const stage& held_stages::stage_of(std::int32_t data_rank,
                                   stage_instance which) const {
  return stages_[static_cast<std::size_t>(data_rank)]
                [setup_.places().index_of(which)];
}

const std::shared_ptr<layer_sequence>& held_stages::module_of(
  std::int32_t data_rank, stage_instance which) const {
  return replicas_[static_cast<std::size_t>(data_rank)]
                  [setup_.places().index_of(which)];
}

module_stage_options held_stages::options_of(std::int32_t data_rank,
                                             stage_instance which,
                                             bool keeps_versions) const {
  const auto& sharding = setup_.options.sharding;
  module_stage_options options;
  options.data_rank = data_rank;
  options.index = which.stage;
  options.rank = setup_.places().rank_of(which);
  options.numerics = setup_.options.numerics;
  options.ties = setup_.ties;
  options.keeps_versions = keeps_versions;
  if (sharding.shards())
    options.shards = {.shard = data_rank % setup_.shards(),
                      .shards = setup_.shards(),
                      .multiple = sharding.multiple,
                      .releases = setup_.releases()};
  options.publish = [to = outlet_](tensors_event observed) {
    to->publish(std::move(observed));
  };
  return options;
}

void held_stages::make_stages(const model& layers, const plan& training) {
  const auto& places = setup_.places();
  const auto instances = places.instances();
  distinct_parameters distinct;
  for (std::int32_t d = 0; d < setup_.options.data_parallel; ++d) {
    auto& modules = replicas_.emplace_back(instances.size());
    stages_.emplace_back(instances.size());
    for (const auto& each : instances)
      if (setup_.layout.is_here(d, places.rank_of(each))) {
        add_stage(d, each, layers, training);
        distinct.add(module_of(d, each)->parameters_by_name());
      }
    require_own_names(state_dict_of(modules, places.stages()));
  }
}

void held_stages::add_stage(std::int32_t data_rank, stage_instance which,
                            const model& layers, const plan& training) {
  const auto replica = static_cast<std::size_t>(data_rank);
  const auto index = setup_.places().index_of(which);
  const auto module =
    std::make_shared<layer_sequence>(layers, setup_.ranges, which.stage);
  module->convert(setup_.options.numerics.dtypes);
  note_buffers_of(*module);
  stages_[replica][index] =
    make_stage(data_rank, which, module, training.update.every > 0);
  replicas_[replica][index] = module;
}

/// All that a stage begins with is computed on its compute stream, if it has a
/// device, and is there when this returns: for the host too.
stage held_stages::make_stage(std::int32_t data_rank, stage_instance which,
                              const std::shared_ptr<layer_sequence>& module,
                              bool keeps_versions) const {
  auto options = options_of(data_rank, which, keeps_versions);
  const auto device = options.device = devices_.of(data_rank, which);
  if (!device)
    return make_module_stage(module, options);
  const auto scope = device->compute().enter();
  move_to_device(*module, device->compute());
  auto on_device = make_module_stage(module, options);
  device->compute().drain();
  return on_device;
}

void held_stages::require_slices(const plan& training) const {
  if (training.slices == 1)
    return;
  for_each_stage([&](std::int32_t d, stage_instance which) {
    if (const auto problem = module_of(d, which)->problem_in_slices();
        !problem.empty())
      fail(error_code::invalid_argument,
           "schedule {} cuts microbatches into {} slices, and {}",
           training.schedule_name, training.slices, problem);
  });
}

bool held_stages::reads_data(std::int32_t stage) const {
  bool reads = false;
  for_each_stage([&](std::int32_t d, stage_instance which) {
    reads |= which.stage == stage && module_of(d, which)->reads_arguments();
  });
  return reads;
}

void held_stages::require_generation() const {
  for_each_stage([&](std::int32_t d, stage_instance which) {
    const auto& module = *module_of(d, which);
    if (const auto problem = module.problem_in_slices(); !problem.empty())
      fail(error_code::invalid_argument,
           "tokens are generated position by position, and {}", problem);
    if (module.reads_model_inputs() && which.stage != 0)
      fail(error_code::invalid_argument,
           "stage {} reads the model's inputs; tokens are generated by "
           "models whose first stage alone does: use another split",
           which.stage);
  });
}

void held_stages::forget_sequences() {
  for_each_stage([&](std::int32_t d, stage_instance which) {
    stage_of(d, which).compute->forget_sequences();
  });
}

std::vector<std::string> held_stages::names() const {
  std::set<std::string> all;
  for_each_stage([&](std::int32_t d, stage_instance which) {
    const auto& module = *module_of(d, which);
    for (auto& each : module.modules_by_name())
      all.insert(std::move(each.name));
    for (auto& each : module.parameters_by_name())
      all.insert(std::move(each.first));
  });
  return {all.begin(), all.end()};
}

std::vector<parameter_here> held_stages::parameters_here() const {
  std::vector<parameter_here> all;
  for_each_stage([&](std::int32_t d, stage_instance which) {
    for (auto& [name, value] : module_of(d, which)->parameters_by_name()) {
      const auto tied = setup_.aliases.find(name);
      all.push_back({which, d, name,
                     tied == setup_.aliases.end() ? name : tied->second,
                     value});
    }
  });
  return all;
}

/// Copies, if the parameters are about to be sharded again.
parameter_list held_stages::copies_if_released(parameter_list whole) const {
  if (setup_.releases())
    for (auto& [name, value] : whole)
      value = value.detach().clone();
  return whole;
}

parameter_list held_stages::parameters() const {
  const whole_scope whole(*this);
  return copies_if_released(without_aliases(
    parameters_of(replicas_[0], setup_.places().stages()), setup_.aliases));
}

parameter_list held_stages::gather() const {
  if (!setup_.job())
    return parameters();
  const whole_scope whole(*this);
  auto own = parameters_here();
  if (setup_.releases())  // they are sent in the background
    for (auto& each : own)
      each.value = on_host(each);
  return troupe::gather(*setup_.job(), own);
}

at::Tensor held_stages::on_host(const parameter_here& which) const {
  const auto device = devices_.of(which.data_rank, which.stage);
  const auto scope = device ? device->compute().enter() : nullptr;
  auto copy = which.value.detach().to(at::kCPU, which.value.scalar_type(),
                                      /*non_blocking=*/false, /*copy=*/true);
  if (device)
    device->compute().drain();
  return copy;
}

void held_stages::load(const parameter_list& values,
                       const std::string& origin) {
  const auto& places = setup_.places();
  const auto all = with_aliases(values, setup_.aliases, origin);
  const whole_scope whole(*this);
  for (const auto& modules : replicas_)
    for (std::int8_t copy = 0; copy < places.copies(); ++copy) {
      const auto own = parameters_of(modules, places.stages(), copy);
      load_parameters(own, setup_.job() ? only(own, all) : all, origin);
    }
  take_shards();
  read_parameters();
}

/// Each stage's read follows the work of its compute stream, if it has a
/// device.
void held_stages::read_parameters() {
  for_each_stage([&](std::int32_t d, stage_instance which) {
    const auto device = devices_.of(d, which);
    const auto scope = device ? device->compute().enter() : nullptr;
    stage_of(d, which).parameters->read_parameters();
  });
}

void held_stages::check_replicas() const {
  const whole_scope whole(*this);
  require_equal_replicas(setup_.job(), parameters_here());
}

std::map<std::int32_t, parameter_list> held_stages::snapshot() const {
  const auto& places = setup_.places();
  const whole_scope whole(*this);
  std::map<std::int32_t, parameter_list> ranks;
  for (const auto& which : places.instances()) {
    if (which.copy != 0)
      continue;
    const auto state = optimizer_state_of(which);
    const auto& module = module_of(0, which);
    if (!module)
      continue;
    auto copies =
      host_copies(without_aliases(module->state_dict(), setup_.aliases),
                  without_aliases(state, setup_.aliases));
    std::ranges::move(copies, std::back_inserter(ranks[places.rank_of(which)]));
  }
  return ranks;
}

void held_stages::restore(const stored_checkpoint& from, std::int32_t data_rank,
                          stage_instance which) {
  const auto device = devices_.of(data_rank, which);
  const auto scope = device ? device->compute().enter() : nullptr;
  restore_model(from, module_of(data_rank, which)->state_dict(),
                setup_.aliases);
  auto& parameters = *stage_of(data_rank, which).parameters;
  parameters.load_state(stored_state(from, parameters.state(), setup_.aliases,
                                     setup_.options.numerics.dtypes));
  if (device)
    device->compute().drain();
}

void held_stages::restore(const stored_checkpoint& from) {
  const whole_scope whole(*this);
  require_elements(
    from,
    sum_of(setup_.job(),
           elements_of(state_dict_of(replicas_[0], setup_.places().stages()),
                       setup_.aliases)));
  for_each_stage(
    [&](std::int32_t d, stage_instance which) { restore(from, d, which); });
  take_shards();
  require_equal_replicas(setup_.job(), parameters_here());
}

tensor_list held_stages::infer(const tensor_list& inputs) const {
  const whole_scope whole(*this);
  const auto& graph = setup_.graph;
  const auto process_of = [&](std::int32_t stage) {
    return setup_.layout.process_of(0, setup_.places().rank_of(stage));
  };
  tensor_lists travelling(graph.edges().size());  // where their giver lives
  tensor_list outputs;
  const auto stages = setup_.places().stages();
  for (std::int32_t s = 0; s < stages; ++s) {
    tensor_lists received;
    for (const auto& [giver, edge] : graph.inputs(s, false))
      received.push_back(pass_on(
        setup_.job(), std::move(travelling[static_cast<std::size_t>(edge)]),
        process_of(giver), process_of(s)));
    const auto& module = module_of(0, {s});
    if (!module)
      continue;
    auto computed =
      run_on_host(*module, inputs, received, setup_.options.numerics.autocast,
                  devices_.of(0, stage_instance{s}).get());
    outputs = std::move(computed.outputs);
    std::size_t next = 0;
    for (const auto& [reader, edge] : graph.outputs(s, false))
      travelling[static_cast<std::size_t>(edge)] =
        std::move(computed.sent[next++]);
  }
  return share(setup_.job(), std::move(outputs), process_of(stages - 1));
}

void held_stages::note_buffers_of(const layer_sequence& module) {
  for (const auto& [name, value] : module.buffers_by_name())
    buffers_.push_back(value);
}

void held_stages::note_buffers() {
  buffer_versions_ = versions_of(buffers_);
}

bool held_stages::buffers_changed() const {
  return !buffer_versions_.empty() && buffer_versions_ != versions_of(buffers_);
}

bool held_stages::ops_write_state() const {
  return !buffers_.empty() || setup_.options.sharding.shards();
}

}  // namespace troupe
