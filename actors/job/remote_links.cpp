#include "troupe/actors/job/remote_links.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"

namespace troupe {

namespace {

bool is_below(std::int64_t number, std::int64_t end) {
  return number >= 0 && number < end;
}

}  // namespace

remote_begin as_remote(const step_context& step) {
  const auto& settings = step.settings;
  remote_begin made;
  made.serial = step.serial;
  made.step = settings.step;
  made.phase = settings.phase;
  made.learning_rate = settings.learning_rate;
  made.loss_scale = settings.loss_scale;
  made.first_microbatch = settings.first_microbatch;
  made.skip_update = settings.skip_update;
  made.plan = step.plan_hash;
  made.epoch = settings.epoch;
  made.tells_messages = settings.tells_messages;
  made.tells_memory = settings.tells_memory;
  if (settings.interest)
    made.interest = settings.interest->subscriptions();
  return made;
}

remote_links::remote_links(std::shared_ptr<troupe::mesh> mesh,
                           job_layout layout, std::uint64_t run,
                           std::shared_ptr<const job_plans> plans)
  : mesh_(std::move(mesh)),
    layout_(layout),
    run_(run),
    plans_(std::move(plans)),
    held_(static_cast<std::size_t>(layout.processes)) {}

void remote_links::begin(const step_pointer& step) {
  const std::scoped_lock lock(mutex_);
  step_ = step;
  // Waiting messages are of a step that has failed.
  channels_.assign(step->plan->channels.size(), {});
  for (std::size_t i = 0; i < channels_.size(); ++i)
    channels_[i].credits = step->plan->channels[i].credits;
}

std::int32_t remote_links::channel_of(std::int32_t message) const {
  const auto& messages = step_->plan->messages;
  if (message < 0 || static_cast<std::size_t>(message) >= messages.size())
    fail(error_code::mismatch, "the plan has no message {}", message);
  return messages[static_cast<std::size_t>(message)].channel;
}

void remote_links::deliver(std::int32_t process, stage_tensors message) {
  {
    const std::scoped_lock lock(mutex_);
    auto& channel = channels_.at(
      static_cast<std::size_t>(channel_of(message.header.message)));
    if (channel.credits == 0) {
      channel.waiting.emplace_back(process, std::move(message));
      return;
    }
    --channel.credits;
  }
  send_now(process, std::move(message));
}

void remote_links::send_now(std::int32_t process, stage_tensors message) {
  message.header.left = now_ns();
  mesh_->send(process, to_frame(std::move(message)));
}

void remote_links::on(const credit_back& credit) {
  const std::scoped_lock lock(mutex_);
  if (!step_ || credit.serial != step_->serial)
    return;  // of a step that is over
  auto& channel =
    channels_.at(static_cast<std::size_t>(channel_of(credit.message)));
  if (channel.waiting.empty()) {
    ++channel.credits;
    return;
  }
  auto [process, message] = std::move(channel.waiting.front());
  channel.waiting.pop_front();
  send_now(process, std::move(message));
}

void remote_links::send(std::int32_t process, collective_part part) {
  mesh_->send(process, to_frame(std::move(part)));
}

void remote_links::send(std::int32_t process, chosen_tokens tokens) {
  mesh_->send(process, to_frame(control_message(std::move(tokens))));
}

void remote_links::tell(const frame& control) {
  mesh_->broadcast(control);
}

envelope remote_links::admit(std::int32_t sender, const frame_head& announced) {
  auto header = read_envelope(announced.head);
  if (header.run != run_)
    fail(error_code::mismatch, "process {} sent a tensor of another run",
         sender);
  if (header.data_rank < 0 || header.data_rank >= layout_.data_ranks)
    fail(error_code::mismatch, "process {} sent a tensor of replica {}", sender,
         header.data_rank);
  const std::scoped_lock lock(mutex_);
  auto& held = held_[static_cast<std::size_t>(sender)];
  ++held;
  const auto most = plans_->most_credits() * layout_.data_ranks;
  if (held > most)
    fail(error_code::mismatch,
         "process {} has {} tensors in flight, but the plan's credits allow {}",
         sender, held, most);
  return header;
}

void remote_links::check(std::int32_t sender, const rank_done& report) {
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
  const auto& given = *step_->plan;
  const auto rank = static_cast<std::size_t>(report.rank);
  for (const auto& each : report.ops)
    if (each.op < given.first_op[rank] || each.op >= given.first_op[rank + 1])
      refuse("op", each.op);
  for (const auto& each : report.messages)
    if (!is_below(each.message, std::ssize(given.messages)))
      refuse("message", each.message);
}

void remote_links::check(std::int32_t sender, const event& told) const {
  const auto& place = source_of(told);
  const bool is_load = std::holds_alternative<slow_load_event>(told);
  const bool is_known =
    (is_load || std::holds_alternative<tensors_event>(told))
    && is_below(place.data_rank, layout_.data_ranks)
    && (place.rank == none || is_below(place.rank, plans_->places().ranks))
    && (is_load || is_below(place.stage, plans_->places().stages()))
    && (place.microbatch == none || plans_->has_microbatch(place.microbatch));
  if (!is_known)
    fail(error_code::mismatch,
         "process {} names rank {}, stage {}, microbatch {} of replica {}, "
         "which the plan does not have",
         sender, place.rank, place.stage, place.microbatch, place.data_rank);
}

void remote_links::check(std::int32_t sender, const chosen_tokens& tokens) {
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

stage_tensors remote_links::receive(std::int32_t sender, frame what) {
  auto message = read_stage_tensors(std::move(what));
  const auto offset = mesh_->clock_offset(sender);
  message.header.sent += offset;
  message.header.left += offset;
  message.arrived = now_ns();
  const credit_back credit{message.header.serial, message.header.message};
  message.receipt = std::shared_ptr<const void>(
    nullptr, [self = shared_from_this(), sender, credit](const void*) {
      {
        const std::scoped_lock lock(self->mutex_);
        --self->held_[static_cast<std::size_t>(sender)];
      }
      self->mesh_->answer(sender, to_frame(credit));
    });
  return message;
}

}  // namespace troupe
