#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "troupe/base/fail.hpp"
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
void module_compute::drop_ended_batches() {
  const auto* step = settings_.generation.get();
  std::erase_if(sequences_, [&](const auto& each) {
    return !step || std::ranges::count(step->batches, each.first) == 0;
  });
}

/// Takes the caches of a batch's earlier positions at the begin of a step.
slice_carry_pointer module_compute::take_sequences(std::int64_t batch) {
  auto node = sequences_.extract(batch);
  if (node.empty())
    return nullptr;
  const auto& kept = settings_.generation->kept_rows;
  if (const auto rows = kept.find(batch); rows != kept.end())
    node.mapped()->cache.keep_rows(rows->second);
  return std::move(node.mapped());
}

/// Chooses tokens for the logits of the last position.
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

/// Runs new positions of a batch behind those that are cached. There are none,
/// and it does nothing, if the batch's sequences have ended.
op_outputs module_compute::continue_sequences(microbatch_key key,
                                              const tensor_lists& inputs,
                                              const microbatch_data& data,
                                              slice_carry_pointer earlier) {
  const at::NoGradGuard no_grad;
  const auto batch = batch_of(settings_, options_.data_rank, key);
  op_outputs outputs;
  outputs.tensors.resize(module_->interface().outputs.size());
  auto carry = key.slice == 0 ? take_sequences(batch) : std::move(earlier);
  const auto& new_inputs =
    module_->interface().inputs.empty() ? data.inputs : inputs.at(0);
  if (batch != generation_step::no_batch && !new_inputs.empty()) {
    auto result =
      run_observed(key, inputs, data, carry, observer::pass::forward);
    observer_.end_op();
    carry = result.saved.slice->for_later();
    if (module_->has_last())
      outputs.chosen = choose(batch, result.outputs);
    outputs.tensors = std::move(result.sent);
  }
  if (key.slice + 1 < settings_.slices)
    outputs.states.carry = std::move(carry);
  else if (carry)
    sequences_[batch] = std::move(carry);
  return outputs;
}

}  // namespace troupe
