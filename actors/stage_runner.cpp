#include "troupe/actors/stage_runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/actors/recording.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/plan/op_text.hpp"
#include "troupe/engine/stage/gradient_norm.hpp"

namespace troupe {

namespace {

/// Whether the op gives work to the compute stream of a device.
bool on_device(plan_op_kind kind) {
  return is_compute(kind) || kind == plan_op_kind::gradient_norm
         || kind == plan_op_kind::update;
}

}  // namespace

stage_runner::stage_runner(stage_setup setup, stage_ports& ports)
  : setup_(std::move(setup)), ports_(ports), device_(setup_.device) {}

event_source stage_runner::source() const {
  event_source source;
  source.data_rank = setup_.data_rank;
  source.stage = setup_.stage;
  if (!step_)
    return source;
  source.step = step_->settings.step;
  source.phase = step_->settings.phase;
  source.rank = setup_.rank;
  if (token_) {
    source.microbatch = here().microbatch;
    source.slice = here().slice;
  }
  return source;
}

std::string stage_runner::current_op() const {
  return token_ ? to_text(*token_->step->plan, here()) : std::string{};
}

const plan_op& stage_runner::here() const {
  return token_->step->plan->ops[token_->position];
}

void stage_runner::on(const begin_step& message) {
  step_ = message.step;
  records_.clear();
  tokens_ = 0;
  data_.clear();
  asked_for_ = 0;
  asked_to_reduce_ = false;
  reduced_.reset();
  // The norm may arrive before this rank begins its update.
  if (norm_ && norm_->serial != step_->serial)
    norm_.reset();
  last_op_ = last_op_of(*step_->plan, setup_.stage);
  setup_.work->begin_step(step_->settings);
  if (setup_.needs_data && step_->settings.part != step_part::update)
    ask_for_data(setup_.prefetch);
}

void stage_runner::on(lane_token token) {
  token_ = std::move(token);
  advance();
}

void stage_runner::on(stage_tensors message) {
  require_expected(message, setup_, step_.get());
  const auto& e = message.header;
  if (inbox_.contains({e.serial, e.backward, e.key}))
    fail(error_code::mismatch, "stage {} got the {} twice", setup_.stage,
         summary(e));
  inbox_.emplace(
    key_of_arrival{e.serial, e.backward, e.key},
    arrival{std::move(message.tensors), std::move(message.receipt),
            std::move(message.ready), e.sent, e.left, message.arrived,
            e.message,
            e.by_device ? std::make_shared<const envelope>(e) : nullptr});
  if (e.by_device)
    to_post_.push_back({e.serial, e.backward, e.key});
  advance();
}

void stage_runner::on(loaded_data message) {
  if (!step_ || message.serial != step_->serial)
    fail(error_code::internal,
         "stage {} was handed microbatch {} of another step", setup_.stage,
         message.microbatch);
  data_.emplace(message.microbatch,
                held_data{message.sent, std::move(message.data)});
  advance();
}

void stage_runner::on(const gradients_reduced& message) {
  reduced_ = message;
  if (waits_to_finish_)
    finish_step();
  advance();
}

void stage_runner::on(const norm_known& message) {
  norm_ = message;
  advance();
}

void stage_runner::advance() {
  bool ran_one = false;
  while (token_) {
    const auto& plan = *token_->step->plan;
    const auto lane_end =
      plan.first_op[static_cast<std::size_t>(setup_.rank) + 1];
    const bool at_end = token_->position == lane_end;
    // Posting a receive is anyone's turn, as long as it is still reported.
    const bool posts = !at_end && here().kind == plan_op_kind::receive
                       && token_->position < last_op_;
    const bool foreign = !at_end && !posts && here().stage != setup_.stage;
    const bool next_turn = !at_end && ran_one && is_compute(here().kind);
    if (at_end)
      show(progress_board::state::idle);
    const bool reducing = !at_end && waits_for_reduction();
    if (at_end || (!reducing && (foreign || next_turn))) {
      const auto to = at_end ? none : here().stage;
      if (foreign)
        hold_back_others();
      ports_.pass(to, std::move(*token_));
      token_.reset();
      return;
    }
    if (reducing || !ready(here())) {
      if (waits_since_ == 0)
        waits_since_ = now_ns();
      return reducing ? show_reduction() : show(progress_board::state::waiting);
    }
    ran_one = ran_one || is_compute(here().kind);
    execute(here());
  }
}

/// Nothing runs beside a reduction that may not overlap.
bool stage_runner::waits_for_reduction() const {
  return asked_to_reduce_ && !setup_.overlap.reduce && !reduced_;
}

bool stage_runner::ready(const plan_op& op) {
  const microbatch_key key{op.microbatch, op.slice};
  const auto arrived = [&](bool backward) {
    const auto at = inbox_.find({step_->serial, backward, key});
    if (at == inbox_.end())
      return false;
    input_times_.ready = at->second.sent;
    input_times_.left = at->second.left;
    input_times_.arrived = at->second.arrived;
    return true;
  };
  input_times_ = {};
  if (op.kind == plan_op_kind::forward) {
    const auto data = data_.find(op.microbatch);
    if (setup_.needs_data && data == data_.end())
      return false;
    if (op.stage > 0 && !arrived(false))
      return false;
    if (setup_.needs_data && data->second.sent > input_times_.ready)
      input_times_ = {.ready = data->second.sent};
    return true;
  }
  if (takes_gradient(op.kind))
    return op.stage + 1 == step_->plan->stages() || arrived(true);
  if (op.kind == plan_op_kind::gradient_norm && reduces_here()) {
    input_times_.ready = reduced_ ? reduced_->sent : 0;
    return reduced_.has_value();
  }
  if (op.kind == plan_op_kind::update && setup_.waits_for_norm) {
    input_times_.ready = norm_ ? norm_->sent : 0;
    return norm_.has_value();
  }
  return true;
}

/// In an update of its own they are reduced already.
bool stage_runner::reduces_here() const {
  return setup_.reduces && step_->settings.part != step_part::update;
}

void stage_runner::execute(const plan_op& op) {
  show(progress_board::state::running);
  auto record = input_times_;
  record.op = token_->position;
  record.sequence = token_->executed++;
  if (step_->recorded)
    record_op(op, record);
  else
    run_timed(op, record);
  waits_since_ = 0;
  record.end = now_ns();
  records_.push_back(record);
  if (token_->position == last_op_)
    end_part();
  ++token_->position;
}

void stage_runner::run_timed(const plan_op& op, op_record& record) {
  const auto scope = device_.enter();
  if (is_compute(op.kind))
    bring_data();
  post_receives();
  await_reduction();
  // A launched step noted the time before.
  if (on_device(op.kind) && step_->settings.part == step_part::whole)
    device_.begin_step(step_->serial);
  if (on_device(op.kind))
    device_.begin_op();
  record.begin = now_ns();
  run(op);
  if (on_device(op.kind))
    device_.end_op(records_.size());
}

void stage_runner::record_op(const plan_op& op, op_record& record) {
  record.begin = now_ns();
  const bool done = step_->recorded->attempt(to_text(*step_->plan, op), [&] {
    const auto scope = device_.enter();
    await_reduction();
    run(op);
  });
  if (!done)
    skip(op);
}

/// Hands on, without tensors, what the op would have: something before could
/// not be recorded, or the op itself, halfway.
void stage_runner::skip(const plan_op& op) {
  const microbatch_key key{op.microbatch, op.slice};
  if (op.kind == plan_op_kind::send)
    return send_out(op);
  if (op.kind == plan_op_kind::reduce) {
    asked_to_reduce_ = setup_.reduces;
    return ports_.reduce({step_->serial, setup_.stage, setup_.data_rank,
                          tensor_list{}, nullptr, nullptr, step_->recorded});
  }
  if (!is_compute(op.kind))
    return;
  const bool forward = op.kind == plan_op_kind::forward;
  inbox_.erase({step_->serial, !forward, key});
  if (forward && data_.erase(op.microbatch) > 0)
    ask_for_data(op.microbatch + 1 + setup_.prefetch);
  const bool ends =
    forward ? op.stage + 1 == step_->plan->stages() : op.stage == 0;
  if (!ends && op.kind != plan_op_kind::weight_backward)
    hand_on({}, key, !forward, true);
}

void stage_runner::await_reduction() {
  if (reduced_ && !setup_.overlap.reduce)
    device_.wait_for(reduced_->ready);
}

void stage_runner::run(const plan_op& op) {
  switch (op.kind) {
    case plan_op_kind::send:
      return send_out(op);
    case plan_op_kind::receive:
      return;
    case plan_op_kind::reduce:
      return reduce();
    case plan_op_kind::gradient_norm:
      return tell_norm();
    case plan_op_kind::update:
      return apply_update();
    case plan_op_kind::gather:
    case plan_op_kind::release:
      fail(error_code::invalid_argument,
           "the plan has sharded parameters, which this stage lacks");
    default:
      run_compute(op);
  }
}

void stage_runner::tell_norm() {
  if (reduced_)
    device_.wait_for(reduced_->ready);
  if (reduced_ && setup_.links && setup_.links->averages(setup_.stage))
    setup_.links->remove_unknown(setup_.stage, setup_.work->parameters());
  setup_.work->show_parameters();
  // Replicas hold the same gradients by now: one of them is enough.
  if (setup_.data_rank == 0)
    ports_.squares(
      {step_->serial, setup_.stage,
       gradient_squares(setup_.work->parameters(), setup_.device.get())});
}

void stage_runner::run_compute(const plan_op& op) {
  const microbatch_key key{op.microbatch, op.slice};
  const auto kind = static_cast<op_kind>(op.kind);
  const bool last = op.stage + 1 == step_->plan->stages();
  if (kind == op_kind::forward) {
    auto inputs = op.stage == 0 ? tensor_list{} : take_input(false, key);
    const auto data = take_data(op.microbatch);
    if (op.stage == 0) {
      inputs = data.inputs;
      tokens_ += data.tokens;
    }
    auto outputs = setup_.work->forward(key, std::move(inputs), data);
    if (!last)
      hand_on(std::move(outputs), key, false);
    return;
  }
  auto gradients = last || kind == op_kind::weight_backward
                     ? tensor_list{}
                     : take_input(true, key);
  auto to_previous = setup_.work->backward(kind, key, std::move(gradients));
  if (op.stage > 0 && kind != op_kind::weight_backward)
    hand_on(std::move(to_previous), key, true);
}

void stage_runner::apply_update() {
  const auto factor = norm_ ? norm_->factor : 1.0 / step_->settings.loss_scale;
  const bool overflowed = norm_ && !norm_->update;
  if (!step_->settings.skip_update && !overflowed)
    setup_.work->update(factor);
}

void stage_runner::reduce() {
  const auto& parameters = setup_.work->parameters();
  asked_to_reduce_ = setup_.reduces;
  if (setup_.links && setup_.links->averages(setup_.stage)) {
    setup_.links->complete(setup_.stage, parameters);
    reduced_ = {
      step_->serial, now_ns(),
      setup_.links->average(setup_.stage, parameters, device_.mark())};
  } else
    ports_.reduce({step_->serial, setup_.stage, setup_.data_rank, parameters,
                   device_ ? setup_.device->on() : nullptr, device_.mark(),
                   step_->recorded});
}

/// Gradients alone end where they are reduced, for nothing else waits for it.
void stage_runner::end_part() {
  waits_to_finish_ = step_->settings.part == step_part::gradients
                     && asked_to_reduce_ && !reduced_;
  if (!waits_to_finish_)
    finish_step();
}

stage_result stage_runner::end_work() {
  stage_result result;
  if (!step_->recorded)
    return setup_.work->end_step();
  step_->recorded->attempt(fmt::format("the end of stage {}", setup_.stage),
                           [&] { result = setup_.work->end_step(); });
  return result;
}

void stage_runner::finish_step() {
  waits_to_finish_ = false;
  const auto scope = device_.enter();
  auto result = end_work();
  device_.settle(records_);
  const bool left_in = std::ranges::any_of(inbox_, [this](const auto& item) {
    return item.first.serial == step_->serial;
  });
  if (left_in || !outbox_.empty() || !data_.empty())
    fail(error_code::internal,
         "stage {}: {} messages, {} unsent outputs and {} microbatches of "
         "data were left at the end of the step",
         setup_.stage, left_in ? inbox_.size() : 0, outbox_.size(),
         data_.size());
  ports_.done({step_->serial, setup_.stage, std::move(result),
               std::move(records_), tokens_, std::move(messages_),
               step_->recorded && reduced_ ? reduced_->ready : nullptr});
  records_ = {};
  messages_ = {};
}

void stage_runner::show(progress_board::state state) const {
  setup_.board->set(setup_.data_rank, setup_.rank, {token_->position, state});
}

}  // namespace troupe
