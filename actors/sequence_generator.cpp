#include "troupe/actors/sequence_generator.hpp"

#include <algorithm>
#include <utility>

#include "troupe/engine/generation/sequence_batches.hpp"

namespace troupe {

namespace {

/// The source of one step: the input of each slot's batch.
source_pointer prompts_of(const sequence_batches& work) {
  std::vector<microbatch_data> prompts;
  for (std::size_t slot = 0; slot < work.slots(); ++slot)
    prompts.push_back(work.data(slot));
  return make_source([prompts = std::move(prompts)](std::int64_t index) {
    return index < std::ssize(prompts)
             ? prompts[static_cast<std::size_t>(index)]
             : microbatch_data{};
  });
}

std::int32_t share_of(std::size_t slots, std::int32_t replicas) {
  const auto all = static_cast<std::int32_t>(slots);
  return (all + replicas - 1) / replicas;
}

}  // namespace

sequence_generator::sequence_generator(const trainer_setup& setup,
                                       run_plans& plans, held_stages& stages,
                                       pipeline& actors)
  : setup_(setup), plans_(plans), stages_(stages), actors_(actors) {}

std::vector<generated> sequence_generator::generate(
  const step_settings& settings,
  const std::vector<generation_request>& requests,
  const generation_options& options, const generation_listener& listener) {
  stages_.require_generation();
  actors_.require_not_ended();
  const auto in_flight =
    options.microbatches > 0 ? options.microbatches : 2 * setup_.places().ranks;
  const auto batches = std::make_shared<sequence_batches>(
    requests, options,
    static_cast<std::size_t>(in_flight * setup_.options.data_parallel),
    next_batch_);
  const held_stages::whole_scope whole(stages_);
  while (!batches->finished())
    if (step(settings, batches, listener))
      actors_.require_not_ended();
  stages_.forget_sequences();
  return batches->results();
}

/// Returns whether the run has ended with it.
bool sequence_generator::step(const step_settings& settings,
                              const std::shared_ptr<sequence_batches>& batches,
                              const generation_listener& listener) {
  auto& work = *batches;
  const auto replicas = setup_.options.data_parallel;
  const auto microbatches = share_of(work.slots(), replicas);
  auto step = std::make_shared<generation_step>(work.begin_step());
  const auto all = static_cast<std::size_t>(replicas * microbatches);
  step->batches.resize(all, generation_step::no_batch);
  step->rows.resize(all, 0);
  // An op that hangs may outlive a failed call.
  step->choose = [batches](std::int64_t batch, const at::Tensor& logits) {
    return batches->choose(batch, logits);
  };
  auto own = settings;
  own.phase = phase::inference;
  own.first_microbatch = 0;
  own.generation = std::move(step);
  const auto report = actors_.run(
    own, plans_.generation(microbatches, work.positions()), prompts_of(work));
  actors_.publish(report.summary);
  plans_.note_announced(report.changes);
  share_chosen(work, microbatches);
  next_batch_ = work.next_batch();
  try {
    work.end_step(listener);
  } catch (...) {  // the listener's; the run goes on
    stages_.forget_sequences();
    throw;
  }
  return actors_.ended().has_value();
}

/// The tokens of this step, from the process of each replica's last stage to
/// all others.
void sequence_generator::share_chosen(sequence_batches& batches,
                                      std::int32_t microbatches) const {
  const auto& places = setup_.places();
  const auto& layout = setup_.layout;
  const auto last = places.rank_of(places.stages() - 1);
  for (std::int32_t d = 0; setup_.job() && d < setup_.options.data_parallel;
       ++d) {
    const auto owner = layout.process_of(d, last);
    const auto begin = static_cast<std::size_t>(d * microbatches);
    const auto end =
      std::min(batches.slots(), begin + static_cast<std::size_t>(microbatches));
    tensor_list chosen;
    for (auto slot = begin; slot < end && owner == layout.process; ++slot)
      chosen.push_back(batches.chosen(slot));
    chosen = share(setup_.job(), std::move(chosen), owner);
    for (auto slot = begin; slot < end && owner != layout.process; ++slot)
      batches.take(slot, chosen.at(slot - begin));
  }
}

}  // namespace troupe
