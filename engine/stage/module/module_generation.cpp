#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"

namespace troupe {

namespace {

std::int64_t batch_of(const step_settings& settings, std::int32_t data_rank,
                      microbatch_key key) {
  return settings.generation->batches.at(static_cast<std::size_t>(
    data_rank * settings.microbatches + key.microbatch));
}

}  // namespace

/// Forgets the sequences that have ended.
void module_compute::keep_batches() {
  const auto* step = settings_.generation.get();
  std::erase_if(sequences_, [&](const auto& each) {
    return !step || std::ranges::count(step->batches, each.first) == 0;
  });
}

/// What the batch's earlier positions have left, at the begin of a step.
slice_carry_pointer module_compute::take_sequences(std::int64_t batch) {
  auto node = sequences_.extract(batch);
  if (node.empty())
    return nullptr;
  const auto& kept = settings_.generation->kept_rows;
  if (const auto rows = kept.find(batch); rows != kept.end())
    node.mapped()->cache.keep_rows(rows->second);
  return std::move(node.mapped());
}

/// Tokens for the last position's logits.
at::Tensor module_compute::choose(std::int64_t batch,
                                  const tensor_list& outputs) {
  const auto& logits = outputs.at(0);
  if (logits.dim() != 3)
    fail(error_code::invalid_argument,
         "the model's output has {} dimensions; tokens are generated from "
         "logits [rows, positions, vocabulary]",
         logits.dim());
  return settings_.generation->choose(
    batch, read_on_host(logits.select(1, -1), options_.device.get()));
}

/// Runs new positions of a batch behind those that are kept. Without any,
/// as its sequences have ended, it does nothing.
op_outputs module_compute::continue_sequences(microbatch_key key,
                                              const tensor_lists& inputs,
                                              const microbatch_data& data,
                                              slice_carry_pointer earlier) {
  const at::NoGradGuard no_grad;
  const auto batch = batch_of(settings_, options_.data_rank, key);
  op_outputs outputs;
  outputs.tensors.resize(module_->interface().outputs.size());
  auto kept = key.slice == 0 ? take_sequences(batch) : std::move(earlier);
  const auto& new_inputs =
    module_->interface().inputs.empty() ? data.inputs : inputs.at(0);
  if (batch != generation_step::no_batch && !new_inputs.empty()) {
    auto done = run_observed(key, inputs, data, kept, observer::pass::forward);
    observer_.end_op();
    kept = done.saved.slice->for_later();
    if (module_->has_last())
      outputs.chosen = choose(batch, done.outputs);
    outputs.tensors = std::move(done.sent);
  }
  if (key.slice + 1 < settings_.slices)
    outputs.states.carry = std::move(kept);
  else if (kept)
    sequences_[batch] = std::move(kept);
  return outputs;
}

}  // namespace troupe
