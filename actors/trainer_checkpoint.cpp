// What a trainer gives to a checkpoint, and takes from one.
#include "troupe/actors/stored_state.hpp"
#include "troupe/actors/trainer_state.hpp"

namespace troupe {

run_progress trainer::progress() const {
  const auto& scale = impl_->scale.progress();
  return {.step = impl_->step,
          .microbatches = impl_->position,
          .loss_scale = scale.value,
          .good_steps = scale.good_steps,
          .skipped = scale.skipped};
}

std::string trainer::loses_last_step(std::chrono::milliseconds longest) const {
  if (!impl_->actors->abandon_step())
    return "the step that was interrupted had begun to change the parameters";
  const bool reads_what_ops_write =
    !impl_->buffers.empty() || impl_->options.sharding.shards();
  if (reads_what_ops_write && !impl_->actors->await_ops(longest))
    return "an op of the step that was interrupted did not end in time";
  if (!impl_->buffer_versions.empty()
      && impl_->buffer_versions != versions_of(impl_->buffers))
    return "the step that was interrupted had begun to change buffers";
  return {};
}

std::map<std::int32_t, parameter_list> trainer::snapshot() const {
  const auto& places = impl_->places();
  const impl::whole_scope whole(*impl_);
  std::map<std::int32_t, parameter_list> ranks;
  for (const auto& which : places.instances()) {
    const auto index = places.index_of(which);
    const auto& module = impl_->replicas[0][index];
    if (which.copy != 0)
      continue;
    const auto state = impl_->optimizer_state_of(which);
    if (!module)
      continue;
    const auto& aliases = impl_->aliases;
    auto copies = host_copies(without_aliases(module->state_dict(), aliases),
                              without_aliases(state, aliases));
    auto& tensors = ranks[places.rank_of(which)];
    std::ranges::move(copies, std::back_inserter(tensors));
  }
  return ranks;
}

void trainer::impl::restore(const stored_checkpoint& from,
                            std::int32_t data_rank, stage_instance which) {
  const auto index = places().index_of(which);
  const auto d = static_cast<std::size_t>(data_rank);
  const auto& module = replicas[d][index];
  if (!module)
    return;
  const auto device = devices.of(data_rank, which);
  const auto scope = device ? device->compute().enter() : nullptr;
  restore_model(from, module->state_dict(), aliases);
  auto& parameters = *stages[d][index].parameters;
  parameters.load_state(
    stored_state(from, parameters.state(), aliases, options.numerics.dtypes));
  if (device)
    device->compute().drain();
}

void trainer::restore(const stored_checkpoint& from) {
  const impl::whole_scope whole(*impl_);
  require_elements(
    from, sum_of(impl_->options.job.get(),
                 elements_of(
                   state_dict_of(impl_->replicas[0], impl_->places().stages()),
                   impl_->aliases)));
  for (std::int32_t d = 0; d < impl_->options.data_parallel; ++d)
    for (const auto& which : impl_->places().instances())
      impl_->restore(from, d, which);
  impl_->take_shards();
  const auto& progress = from.about().progress;
  impl_->step = progress.step;
  impl_->position = progress.microbatches;
  impl_->scale.restore(
    {progress.loss_scale, progress.good_steps, progress.skipped});
  require_equal_replicas(impl_->options.job.get(), impl_->held());
}

}  // namespace troupe
