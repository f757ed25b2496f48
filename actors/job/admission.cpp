#include "troupe/actors/job/admission.hpp"

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

bool is_below(std::int64_t number, std::int64_t end) {
  return number >= 0 && number < end;
}

}  // namespace

job_plans::job_plans(const std::vector<plan_pointer>& plans)
  : placement_(plans.front()->placement) {
  for (const auto& each : plans)
    add(*each);
}

void job_plans::add(const plan& further) {
  std::int64_t credits = 0;
  for (const auto& channel : further.channels)
    credits += channel.credits;
  const std::scoped_lock lock(mutex_);
  auto& [messages, microbatches, most_credits] = most_;
  messages = std::max<std::int64_t>(messages, std::ssize(further.messages));
  microbatches = std::max<std::int64_t>(microbatches, further.microbatches);
  most_credits = std::max(most_credits, credits);
}

job_plans::limits job_plans::most() const {
  const std::scoped_lock lock(mutex_);
  return most_;
}

void admission::begin(const step_pointer& step) {
  const std::scoped_lock lock(mutex_);
  step_ = step;
}

void admission::check(std::int32_t sender, const frame_head& announced) {
  const auto header = from_wire<envelope>(announced.head);
  if (header.run != run_)
    fail(error_code::mismatch, "process {} sent a tensor of another run",
         sender);
  if (header.data_rank < 0 || header.data_rank >= layout_.data_ranks)
    fail(error_code::mismatch, "process {} sent a tensor of replica {}", sender,
         header.data_rank);
  count(sender);
  require_place(sender, header);
  require_size(sender, header,
               static_cast<std::int64_t>(bytes_of(announced.tensors)));
}

void admission::count(std::int32_t sender) {
  const std::scoped_lock lock(mutex_);
  const auto held = ++held_[static_cast<std::size_t>(sender)];
  const auto most = plans_->most().credits * layout_.data_ranks;
  if (held > most)
    fail(error_code::mismatch,
         "process {} has {} tensors in flight, but the plan's credits allow {}",
         sender, held, most);
}

void admission::consumed(std::int32_t sender) {
  const std::scoped_lock lock(mutex_);
  --held_[static_cast<std::size_t>(sender)];
}

void admission::check_part(std::int32_t sender,
                           const std::vector<tensor_form>& announced) const {
  const auto bytes = static_cast<std::int64_t>(bytes_of(announced));
  if (bytes > parameter_bytes_)
    fail(error_code::mismatch,
         "process {} announces {} bytes of gradients; the parameters of this "
         "process have {}",
         sender, bytes, parameter_bytes_);
}

/// Whether the step has that very message is the rank's to check.
void admission::require_place(std::int32_t sender,
                              const envelope& header) const {
  const auto& placement = plans_->places();
  const auto lives = [&](std::int32_t stage, std::int32_t process) {
    const stage_instance which{stage, header.copy};
    return placement.has(which)
           && layout_.process_of(header.data_rank, placement.rank_of(which))
                == process;
  };
  if (!lives(header.from_stage, sender)
      || !lives(header.to_stage, layout_.process))
    fail(error_code::mismatch,
         "process {} sent a tensor from stage {} to stage {} of replica {}, "
         "which are not stages of that process and this one",
         sender, header.from_stage, header.to_stage, header.data_rank);
  if (!is_below(header.message, plans_->most().messages))
    fail(error_code::mismatch,
         "process {} sent message {}, which the plan does not have", sender,
         header.message);
}

/// Lengths differ from one microbatch to the next, most where a prompt is of
/// one token and the next one of thousands, but not without bound.
void admission::require_size(std::int32_t sender, const envelope& header,
                             std::int64_t bytes) {
  constexpr std::int64_t most_times = 256, always = std::int64_t{1} << 26;
  if (bytes == 0)
    return;
  const std::scoped_lock lock(mutex_);
  const route subject(header.data_rank, header.from_stage, header.to_stage);
  auto& largest = largest_.emplace(subject, bytes).first->second;
  const auto most =
    std::max({largest * most_times, always, 4 * parameter_bytes_});
  if (bytes > most)
    fail(error_code::mismatch,
         "process {} announces {} bytes from stage {} to stage {}; after at "
         "most {} so far, up to {} are accepted",
         sender, bytes, header.from_stage, header.to_stage, largest, most);
  largest = std::max(largest, bytes);
}

void admission::check(std::int32_t sender, const rank_done& report) {
  const auto refuse = [sender](const char* what, std::int64_t number) {
    fail(error_code::mismatch,
         "process {} reports {} {}, which the plan does not have", sender, what,
         number);
  };
  if (!is_below(report.data_rank, layout_.data_ranks))
    refuse("replica", report.data_rank);
  if (!is_below(report.rank, plans_->places().ranks))
    refuse("rank", report.rank);
  if (layout_.process_of(report.data_rank, report.rank) != sender)
    fail(error_code::mismatch,
         "process {} reports the end of rank {} of replica {}, which belongs "
         "to another process",
         sender, report.rank, report.data_rank);
  const std::scoped_lock lock(mutex_);
  if (!step_ || report.serial != step_->serial)
    return;  // of a step that is over
  const auto& plan = *step_->plan;
  const auto rank = static_cast<std::size_t>(report.rank);
  for (const auto& each : report.ops)
    if (each.op < plan.first_op[rank] || each.op >= plan.first_op[rank + 1])
      refuse("op", each.op);
  for (const auto& each : report.messages)
    if (!is_below(each.message, std::ssize(plan.messages)))
      refuse("message", each.message);
}

void admission::check(std::int32_t sender, const event& observed) const {
  const auto& place = source_of(observed);
  const bool is_load = std::holds_alternative<slow_load_event>(observed);
  const bool is_known =
    (is_load || std::holds_alternative<tensors_event>(observed))
    && is_below(place.data_rank, layout_.data_ranks)
    && (place.rank == none || is_below(place.rank, plans_->places().ranks))
    && (is_load || is_below(place.stage, plans_->places().stages()))
    && (place.microbatch == none
        || is_below(place.microbatch, plans_->most().microbatches));
  if (!is_known)
    fail(error_code::mismatch,
         "process {} names rank {}, stage {}, microbatch {} of replica {}, "
         "which the plan does not have",
         sender, place.rank, place.stage, place.microbatch, place.data_rank);
}

void admission::check(std::int32_t sender, const chosen_tokens& tokens) {
  const auto& [microbatch, slice] = tokens.key;
  const std::scoped_lock lock(mutex_);
  if (step_ && tokens.serial < step_->serial)
    return;  // of a step that is over
  const auto& places = plans_->places();
  const bool chooses =
    step_ && tokens.serial == step_->serial && step_->settings.generation
    && is_below(tokens.data_rank, layout_.data_ranks)
    && layout_.process_of(tokens.data_rank, places.rank_of(places.stages() - 1))
         == sender
    && is_below(microbatch, step_->plan->microbatches) && slice >= 1
    && slice < step_->plan->slices;
  if (!chooses)
    fail(error_code::mismatch,
         "process {} sends tokens for slice {} of microbatch {} of replica {}, "
         "which it does not choose",
         sender, slice, microbatch, tokens.data_rank);
  const auto rows =
    step_->settings.generation->rows.at(static_cast<std::size_t>(
      tokens.data_rank * step_->plan->microbatches + microbatch));
  const auto count = std::ssize(tokens.ids);
  if ((count != 0 && count != rows)
      || std::ranges::any_of(tokens.ids, [](auto id) { return id < 0; }))
    fail(error_code::mismatch,
         "process {} sends {} tokens, or negative ones, for {} sequences of "
         "microbatch {} of replica {}",
         sender, count, rows, microbatch, tokens.data_rank);
}

}  // namespace troupe
