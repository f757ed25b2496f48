#include "troupe/actors/rank/rank_runner.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>

#include "troupe/actors/step/prepared_plan.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/plan/compile/overlapped_pairs.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/stage/module/generation_step.hpp"

namespace troupe {

rank_runner::rank_runner(rank_setup setup, rank_ports& ports)
  : setup_(std::move(setup)),
    ports_(ports),
    device_(setup_.device),
    values_(setup_, ports_, device_) {}

void rank_runner::add(stage_setup stage) {
  const auto instance = stage.instance;
  stages_.try_emplace(instance, setup_, std::move(stage), ports_);
}

event_source rank_runner::source() const {
  event_source source;
  source.data_rank = setup_.data_rank;
  source.rank = setup_.rank;
  if (!step_)
    return source;
  source.step = step_->settings.step;
  source.phase = step_->settings.phase;
  source.stage = ending_stage_;
  if (const auto index = executor_->position()) {
    source.stage = op_at(*index).stage;
    source.microbatch = op_at(*index).microbatch;
    source.slice = op_at(*index).slice;
  }
  return source;
}

std::string rank_runner::current_op() const {
  const auto index = executor_ ? executor_->position() : std::nullopt;
  return index ? to_text(*step_->plan, op_at(*index)) : std::string{};
}

void rank_runner::require_current(std::int64_t serial, const char* what) const {
  if (!step_ || serial != step_->serial)
    fail(error_code::internal, "rank {} got {} of another step", setup_.rank,
         what);
}

/// The executor of the step's plan, begun.
lane_executor& rank_runner::begin_executor(const step_context& step) {
  std::span<const std::uint32_t> order;
  if (step.orders)
    order = step.orders->at(static_cast<std::size_t>(
      setup_.data_rank * step.plan->ranks() + setup_.rank));
  auto& executor = step.prepared->executor(
    setup_.data_rank, setup_.rank, setup_.order,
    {.reads_data = setup_.needs_data, .norm = setup_.waits_for_norm});
  executor.begin(order);
  return executor;
}

void rank_runner::on(const begin_step& message) {
  executor_ = &begin_executor(*message.step);
  step_ = message.step;
  report_ = {step_->serial, setup_.data_rank, setup_.rank};
  report_.ops.reserve(step_->plan->lane(setup_.rank).size());
  last_compute_ = none;
  ended_ = false;
  ending_stage_ = none;
  waits_since_ = 0;
  for (auto& [instance, stage] : stages_)
    stage.begin(step_);
  values_.begin(step_, executor_->data_orders());
  asked_.clear();
  if (norm_ && norm_->serial == step_->serial)
    executor_->norm_arrived();
  else
    norm_.reset();
  for (auto& each : std::exchange(early_, {}))
    on(std::move(each));
  advance();
}

void rank_runner::on(stage_tensors message) {
  if (!step_ || message.header.serial > step_->serial) {
    early_.push_back(std::move(message));
    return;
  }
  if (message.header.serial < step_->serial)
    fail(error_code::mismatch, "rank {} got the {} of a step that is over",
         setup_.rank, summary(message.header));
  values_.on(std::move(message));
  advance();
}

void rank_runner::on(loaded_data message) {
  const auto stage = message.reader.stage;
  const auto microbatch = message.microbatch;
  if (step_ && step_->settings.generation && stage == 0
      && message.slice == loaded_data::all_slices)
    message.slice = 0;
  const auto slice = message.slice;
  values_.put(std::move(message));
  executor_->data_arrived(stage, microbatch, slice);
  advance();
}

void rank_runner::on(const chosen_tokens& message) {
  microbatch_data data;
  if (!message.ids.empty())
    data.inputs = {at::tensor(message.ids, at::kLong).unsqueeze(1)};
  data.tokens = std::ssize(message.ids);
  on(loaded_data{message.serial,
                 {},
                 message.key.microbatch,
                 message.sent,
                 std::make_shared<const microbatch_data>(std::move(data)),
                 message.key.slice});
}

/// Sends what the last stage has chosen to the first one, whose next slice
/// reads it.
void rank_runner::feed_back(const op_launched& answer) {
  const auto& op = op_at(answer.op);
  const auto& plan = *step_->plan;
  if (!step_->settings.generation || op.kind != plan_op_kind::forward
      || op.stage != plan.stages() - 1 || op.slice + 1 == plan.slices)
    return;
  chosen_tokens tokens{step_->serial,
                       setup_.data_rank,
                       {op.microbatch, static_cast<std::int16_t>(op.slice + 1)},
                       answer.end,
                       {}};
  if (answer.chosen.defined()) {
    const auto ids = answer.chosen.contiguous();
    const auto* first = ids.const_data_ptr<std::int64_t>();
    tokens.ids.assign(first, first + ids.numel());
  }
  ports_.feed(std::move(tokens));
}

void rank_runner::on(collective_result message) {
  require_current(message.serial, "reduced gradients");
  const auto asked = asked_.extract(message.owner);
  if (asked.empty())
    fail(error_code::internal, "stage {} asked for no collective",
         message.owner.stage);
  op_launched answer;
  answer.op = asked.mapped();
  answer.outputs.push_back(std::move(message.gradients));
  answer.present = std::move(message.present);
  answer.ready = std::move(message.ready);
  answer.end = message.sent;
  values_.keep(answer);
  executor_->ended(answer.op);
  advance();
}

void rank_runner::on(const norm_verdict& message) {
  if ((step_ && message.serial < step_->serial)
      || (norm_ && norm_->serial == message.serial))
    return;
  norm_ = message;
  if (step_ && message.serial == step_->serial) {
    executor_->norm_arrived();
    advance();
  }
}

void rank_runner::advance() {
  if (!step_ || executor_->launching() || ended_)
    return;
  take_messages();
  while (const auto op = executor_->next()) {
    start(*op);
    if (executor_->launching())
      return;
    take_messages();
  }
  if (executor_->finished())
    end_stages();
  else
    wait();
}

void rank_runner::take_messages() {
  for (const auto receive : values_.complete())
    executor_->ended(receive);
}

void rank_runner::start(std::uint32_t op) {
  show(progress_board::state::running);
  report_.ops.push_back(
    {.op = op, .sequence = static_cast<std::uint32_t>(report_.ops.size())});
  if (is_transfer(op_at(op).kind))
    transfer(op);
  else
    launch(op);
}

void rank_runner::transfer(std::uint32_t op) {
  auto& record = report_.ops.back();
  record.begin = now_ns();
  const bool sends = op_at(op).kind == plan_op_kind::send;
  if (sends)
    values_.send(op_at(op), record.begin);
  else
    values_.post(op);
  record.end = now_ns();
  executor_->launched(op);
  if (sends)
    executor_->ended(op);
  waits_since_ = 0;
}

void rank_runner::launch(std::uint32_t op) {
  const auto& what = op_at(op);
  run_op request;
  request.op = op;
  auto& record = report_.ops.back();
  values_.take(what, request, record, waits_since_);
  if (what.kind == plan_op_kind::update && norm_
      && norm_->serial == step_->serial) {
    request.norm = norm_;
    if (setup_.waits_for_norm)
      record.ready = norm_->sent;
  }
  request.beside = runs_beside(op);
  if (what.stream == stream_kind::compute)
    last_compute_ = op;
  request.states.offloads = executor_->offloads(op);
  waits_since_ = 0;
  ports_.run(instance_of(what), std::move(request));
}

/// A pair whose second op does not follow its first is two ops.
bool rank_runner::runs_beside(std::uint32_t op) const {
  return op_at(op).stream != stream_kind::compute
         || (last_compute_ != none
             && partner_of(*step_->plan,
                           static_cast<std::uint32_t>(last_compute_))
                  == op);
}

void rank_runner::run(stage_instance stage, run_op request) {
  auto answer = stages_.at(stage).run(std::move(request));
  const auto op = answer.op;
  auto& record = report_.ops.back();
  record.begin = answer.begin;
  record.end = answer.end;
  device_.note(report_.ops.size() - 1, answer);
  executor_->launched(op);
  if (answer.asked) {
    asked_.emplace(instance_of(op_at(op)), op);
  } else {
    feed_back(answer);
    values_.keep(answer);
    executor_->ended(op);
  }
  advance();
}

void rank_runner::wait() {
  if (waits_since_ == 0)
    waits_since_ = now_ns();
  show(progress_board::state::waiting);
}

void rank_runner::end_stages() {
  ended_ = true;
  show(progress_board::state::idle);
  for (auto& [instance, stage] : stages_) {
    ending_stage_ = instance.stage;
    end_step message;
    message.gathered = values_.take_gathered(instance);
    if (auto reduced = values_.take_unread(instance)) {
      message.gradients = std::move(reduced->tensors);
      message.present = std::move(reduced->present);
      if (reduced->ready)
        report_.reduced.push_back(std::move(reduced->ready));
    }
    report_.stages.push_back(stage.end(std::move(message)));
  }
  ending_stage_ = none;
  finish();
}

void rank_runner::finish() {
  values_.require_nothing_left();
  device_.settle(report_.ops);
  if (step_->settings.tells_memory)
    report_.memory =
      memory_event{{}, resident_bytes(), peak_resident_bytes(), usable_bytes_};
  report_.tokens = values_.tokens();
  report_.messages = values_.take_messages();
  ports_.done(std::move(report_));
  report_ = {};
}

void rank_runner::show(progress_board::state state) const {
  const auto index = executor_->position();
  op_values::missing_input missing;
  if (state == progress_board::state::waiting && index)
    missing = values_.missing(op_at(*index));
  setup_.board->set(
    setup_.data_rank, setup_.rank,
    {index.value_or(0), state, missing.data, missing.value.value_or(0),
     static_cast<std::uint32_t>(executor_->ended_ops())});
}

}  // namespace troupe
