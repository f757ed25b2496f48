// States of stages that move to other processes, or are kept in memory.
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

/// Loads the state of a stage's optimizer, as `packed` returned it.
void load_optimizer(const stage& of, const tensor_list& tensors) {
  auto state = of.parameters->state();
  const auto stored = unpacked(tensors, state.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    state[i].tensors = stored[i].tensors;
  if (of.shards)
    of.shards->load_own_state(state);
  else
    of.parameters->load_state(state);
}

/// Whether a copy on the CPU can hold another tensor's values.
bool is_alike(const at::Tensor& copy, const at::Tensor& value) {
  return copy.defined() && copy.scalar_type() == value.scalar_type()
         && copy.sizes() == value.sizes() && copy.strides() == value.strides();
}

}  // namespace

/// Copies into tensors of an older state, if given; else handles of tensors on
/// the CPU.
frame held_stages::state_of(std::int32_t data_rank, stage_instance which,
                            const run_progress& progress,
                            const std::optional<tensor_list>& older) const {
  const at::NoGradGuard no_grad;
  const auto device = devices_.of(data_rank, which);
  const auto scope = device ? device->compute().enter() : nullptr;
  stage_state_head head{{data_rank, which}, progress, {}};
  tensor_list tensors;
  const auto add = [&](const at::Tensor& value) {
    const auto index = tensors.size();
    tensors.push_back(older && index < older->size()
                          && is_alike((*older)[index], value)
                        ? (*older)[index].copy_(value)
                        : value.detach().to(at::kCPU, value.scalar_type(),
                                            /*non_blocking=*/false,
                                            /*copy=*/older.has_value()));
  };
  for (const auto& [name, value] : module_of(data_rank, which)->state_dict()) {
    head.names.push_back(name);
    add(value);
  }
  for (const auto& each :
       packed(stage_of(data_rank, which).parameters->state()))
    add(each);
  if (device)
    device->compute().drain();
  return {frame_type::state, to_wire(head), std::move(tensors)};
}

void held_stages::load_state(std::int32_t data_rank, stage_instance which,
                             const frame& from, std::int32_t process) {
  const auto head = from_wire<stage_state_head>(from.head);
  if (head.place.stage.stage != which.stage
      || from.tensors.size() <= head.names.size())
    fail(error_code::mismatch,
         "process {} sent a state of stage {} where one of stage {} was to "
         "come",
         process, head.place.stage.stage, which.stage);
  parameter_list values;
  for (std::size_t i = 0; i < head.names.size(); ++i)
    values.emplace_back(head.names[i], from.tensors[i]);
  const auto device = devices_.of(data_rank, which);
  const auto scope = device ? device->compute().enter() : nullptr;
  load_parameters(module_of(data_rank, which)->state_dict(), values,
                  fmt::format("process {}", process));
  load_optimizer(
    stage_of(data_rank, which),
    {from.tensors.begin() + std::ssize(head.names), from.tensors.end()});
  if (device)
    device->compute().drain();
}

/// The states are nobody's after they have been sent, but for parameters that
/// are about to be sharded again.
void held_stages::send_leaving(const job_layout& next) const {
  const whole_scope whole(*this);
  for_each_stage([&](std::int32_t d, stage_instance which) {
    const auto rank = setup_.places().rank_of(which);
    if (!next.is_here(d, rank))
      setup_.job()->send(
        next.process_of(d, rank),
        state_of(
          d, which, {},
          setup_.releases() ? std::optional(tensor_list{}) : std::nullopt));
  });
}

void held_stages::take_up(const job_layout& before, const model& layers,
                          const plan& training) {
  devices_ = run_devices(setup_.options.devices, setup_.options.overlap,
                         setup_.layout, training, devices_);
  buffers_.clear();
  for (std::int32_t d = 0; d < setup_.options.data_parallel; ++d)
    for (const auto& which : setup_.places().instances()) {
      const auto rank = setup_.places().rank_of(which);
      if (!setup_.layout.is_here(d, rank))
        drop_stage(d, which);
      else if (!before.is_here(d, rank))
        add_stage(d, which, layers, training);
      else
        note_buffers_of(*module_of(d, which));
    }
}

void held_stages::drop_stage(std::int32_t data_rank, stage_instance which) {
  const auto replica = static_cast<std::size_t>(data_rank);
  const auto index = setup_.places().index_of(which);
  stages_[replica][index] = {};
  replicas_[replica][index].reset();
}

void held_stages::receive_arrived(const job_layout& before) {
  const whole_scope whole(*this);
  for_each_stage([&](std::int32_t d, stage_instance which) {
    const auto rank = setup_.places().rank_of(which);
    if (const auto from = before.process_of(d, rank);
        from != setup_.layout.process)
      load_state(d, which, setup_.job()->receive(from, frame_type::state),
                 from);
  });
  take_shards();
}

std::vector<frame> held_stages::copies(const run_progress& progress,
                                       state_copies& kept) const {
  const whole_scope whole(*this);
  std::vector<frame> all;
  for_each_stage([&](std::int32_t d, stage_instance which) {
    all.push_back(state_of(d, which, progress, kept.take_oldest({d, which})));
  });
  return all;
}

void held_stages::recover(const recovery& from, state_copies& own) {
  const auto step = from.progress.step;
  const auto here = setup_.layout.process;
  const auto host_of = [&](const stage_place& place) {
    return setup_.layout.process_of(place.data_rank,
                                    setup_.places().rank_of(place.stage));
  };
  for (const auto& [place, source] : from.sources)
    if (source.process == here && host_of(place) != here) {
      auto state = own.at(source.place, step);
      state.type = frame_type::state;
      setup_.job()->send(host_of(place), std::move(state));
    }
  const whole_scope whole(*this);
  for (const auto& [place, source] : from.sources) {
    if (host_of(place) != here)
      continue;
    auto state = source.process == here
                   ? own.at(source.place, step)
                   : setup_.job()->receive(source.process, frame_type::state);
    load_state(place.data_rank, place.stage, state, source.process);
    own.keep(std::move(state));
  }
  take_shards();
}

}  // namespace troupe
