// Stages that move to other processes.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <iterator>

#include "troupe/actors/held_stages.hpp"
#include "troupe/actors/stored_state.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/parameters/sharded_parameters.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

/// The head of a stage's state on its way: the parameters and buffers, by name,
/// then the optimizer's state, packed.
struct moving_stage {
  std::int32_t data_rank = 0;
  stage_instance stage;
  std::vector<std::string> names;
};
TROUPE_FIELDS(moving_stage, data_rank, stage, names)

}  // namespace

/// Copies where a device holds them, or where the parameters are about to be
/// sharded again; the others are nobody's after they have been sent.
void held_stages::send(std::int32_t data_rank, stage_instance which,
                       std::int32_t process) const {
  const at::NoGradGuard no_grad;
  moving_stage head{data_rank, which, {}};
  tensor_list tensors;
  for (const auto& [name, value] : module_of(data_rank, which)->state_dict()) {
    head.names.push_back(name);
    tensors.push_back(value.detach().to(at::kCPU, value.scalar_type(),
                                        /*non_blocking=*/false,
                                        /*copy=*/setup_.releases()));
  }
  for (const auto& each :
       packed(stage_of(data_rank, which).parameters->state()))
    tensors.push_back(each.to(at::kCPU));
  setup_.job()->send(process,
                     {frame_type::state, to_wire(head), std::move(tensors)});
}

void held_stages::receive(std::int32_t data_rank, stage_instance which,
                          std::int32_t process) {
  const auto what = setup_.job()->receive(process, frame_type::state);
  const auto head = from_wire<moving_stage>(what.head);
  if (head.data_rank != data_rank || head.stage != which
      || what.tensors.size() <= head.names.size())
    fail(error_code::mismatch,
         "process {} sent the state of stage {} of replica {} where stage {} "
         "of replica {} was to come",
         process, head.stage.stage, head.data_rank, which.stage, data_rank);
  parameter_list values;
  for (std::size_t i = 0; i < head.names.size(); ++i)
    values.emplace_back(head.names[i], what.tensors[i]);
  const auto device = devices_.of(data_rank, which);
  const auto scope = device ? device->compute().enter() : nullptr;
  load_parameters(module_of(data_rank, which)->state_dict(), values,
                  fmt::format("process {}", process));
  const auto& of = stage_of(data_rank, which);
  auto state = of.parameters->state();
  const auto stored = unpacked(
    {what.tensors.begin() + std::ssize(head.names), what.tensors.end()},
    state.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    state[i].tensors = stored[i].tensors;
  if (of.shards)
    of.shards->load_own_state(state);
  else
    of.parameters->load_state(state);
  if (device)
    device->compute().drain();
}

void held_stages::send_leaving(const job_layout& next) const {
  const whole_scope whole(*this);
  for_each_stage([&](std::int32_t d, stage_instance which) {
    const auto rank = setup_.places().rank_of(which);
    if (!next.is_here(d, rank))
      send(d, which, next.process_of(d, rank));
  });
}

void held_stages::take_up(const job_layout& before, const model& layers,
                          const plan& training) {
  const auto& places = setup_.places();
  devices_ = run_devices(setup_.options.devices, setup_.options.overlap,
                         setup_.layout, training, devices_);
  buffers_.clear();
  std::vector<std::pair<std::int32_t, stage_instance>> arriving;
  for (std::int32_t d = 0; d < setup_.options.data_parallel; ++d)
    for (const auto& which : places.instances()) {
      const auto rank = places.rank_of(which);
      const auto replica = static_cast<std::size_t>(d);
      const auto index = places.index_of(which);
      if (!setup_.layout.is_here(d, rank)) {
        stages_[replica][index] = {};
        replicas_[replica][index].reset();
      } else if (before.is_here(d, rank)) {
        for (const auto& [name, value] : module_of(d, which)->buffers_by_name())
          buffers_.push_back(value);
      } else {
        add_stage(d, which, layers, training);
        arriving.emplace_back(d, which);
      }
    }
  const whole_scope whole(*this);
  for (const auto& [d, which] : arriving)
    receive(d, which, before.process_of(d, places.rank_of(which)));
  take_shards();
}

}  // namespace troupe
