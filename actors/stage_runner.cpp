#include "troupe/actors/stage_runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/plan/op_text.hpp"
#include "troupe/engine/stage/gradient_norm.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

std::int64_t bytes_of(const tensor_list& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

/// Whether the op gives work to the compute stream of a device.
bool on_device(plan_op_kind kind) {
  return is_compute(kind) || kind == plan_op_kind::gradient_norm
         || kind == plan_op_kind::update;
}

bool is_backward(plan_op_kind kind) {
  return kind == plan_op_kind::backward || kind == plan_op_kind::input_backward;
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
  norm_.reset();
  last_op_ = last_op_of(*step_->plan, setup_.stage);
  setup_.work->begin_step(step_->settings);
  if (setup_.needs_data)
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
    if (at_end || foreign || next_turn) {
      const auto to = at_end ? none : here().stage;
      ports_.pass(to, std::move(*token_));
      token_.reset();
      return;
    }
    if (waits_for_reduction() || !ready(here())) {
      if (waits_since_ == 0)
        waits_since_ = now_ns();
      return show(progress_board::state::waiting);
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
  if (is_backward(op.kind))
    return op.stage + 1 == step_->plan->stages() || arrived(true);
  if (op.kind == plan_op_kind::gradient_norm && setup_.reduces) {
    input_times_.ready = reduced_ ? reduced_->sent : 0;
    return reduced_.has_value();
  }
  if (op.kind == plan_op_kind::update && setup_.waits_for_norm) {
    input_times_.ready = norm_ ? norm_->sent : 0;
    return norm_.has_value();
  }
  return true;
}

void stage_runner::execute(const plan_op& op) {
  show(progress_board::state::running);
  const auto scope = device_.enter();
  if (is_compute(op.kind))
    bring_data();
  post_receives();
  if (reduced_ && !setup_.overlap.reduce)
    device_.wait_for(reduced_->ready);
  if (on_device(op.kind))
    device_.begin_op(step_->serial);
  auto record = input_times_;
  record.op = token_->position;
  record.sequence = token_->executed++;
  record.begin = now_ns();
  switch (op.kind) {
    case plan_op_kind::send:
      send_out(op);
      break;
    case plan_op_kind::receive:
      break;
    case plan_op_kind::reduce:
      reduce();
      break;
    case plan_op_kind::gradient_norm:
      if (reduced_)
        device_.wait_for(reduced_->ready);
      setup_.work->show_parameters();
      // Replicas hold the same gradients by now: one of them is enough.
      if (setup_.data_rank == 0)
        ports_.squares(
          {step_->serial, setup_.stage,
           gradient_squares(setup_.work->parameters(), setup_.device.get())});
      break;
    case plan_op_kind::update:
      apply_update();
      break;
    case plan_op_kind::gather:
    case plan_op_kind::release:
      fail(error_code::invalid_argument,
           "the plan has sharded parameters, which this stage lacks");
    default:
      run_compute(op);
  }
  waits_since_ = 0;
  if (on_device(op.kind))
    device_.end_op(records_.size());
  record.end = now_ns();
  records_.push_back(record);
  if (token_->position == last_op_)
    finish_step();
  ++token_->position;
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

tensor_list stage_runner::take_input(bool backward, microbatch_key key) {
  auto taken =
    std::move(inbox_.extract({step_->serial, backward, key}).mapped());
  if (step_->settings.tells_messages && taken.message != none) {
    const auto now = now_ns();
    messages_.push_back({taken.message, bytes_of(taken.tensors), taken.sent,
                         taken.left, taken.arrived, now,
                         waits_since_ == 0 ? 0 : now - waits_since_});
  }
  return device_.take(std::move(taken.tensors), taken.ready);
}

/// Makes the calls that match what was announced, in that order: whoever sends
/// has made his.
void stage_runner::post_receives() {
  for (; !to_post_.empty(); to_post_.pop_front()) {
    auto& arrival = inbox_.at(to_post_.front());
    arrival.tensors = setup_.links->receive(
      *arrival.on_its_way, summary(*arrival.on_its_way), arrival.ready);
  }
}

void stage_runner::reduce() {
  const auto& parameters = setup_.work->parameters();
  asked_to_reduce_ = setup_.reduces;
  if (setup_.links && setup_.links->averages(setup_.stage))
    reduced_ = {step_->serial, now_ns(),
                setup_.links->average(setup_.data_rank, setup_.stage,
                                      parameters, device_.mark())};
  else
    ports_.reduce({step_->serial, setup_.stage, setup_.data_rank, parameters,
                   device_ ? setup_.device->on() : nullptr, device_.mark()});
}

/// Starts the way to the device of all data that is here.
void stage_runner::bring_data() {
  if (!device_)
    return;
  for (auto& [microbatch, item] : data_)
    if (!std::exchange(item.brought, true))
      item.data = std::make_shared<const microbatch_data>(
        device_.bring(*item.data, item.ready));
}

microbatch_data stage_runner::take_data(std::int32_t microbatch) {
  if (!setup_.needs_data)
    return {};
  const auto item = std::move(data_.extract(microbatch).mapped());
  ask_for_data(microbatch + 1 + setup_.prefetch);
  auto data = *item.data;
  data.inputs = device_.take(std::move(data.inputs), item.ready);
  data.targets = device_.take(std::move(data.targets), item.ready);
  for (auto& [name, tensor] : data.arguments)
    tensor = device_.take({tensor}, item.ready)[0];
  return data;
}

void stage_runner::ask_for_data(std::int32_t up_to) {
  up_to = std::min(up_to, step_->plan->microbatches);
  for (; asked_for_ < up_to; ++asked_for_)
    ports_.want({step_, setup_.stage, asked_for_});
}

void stage_runner::hand_on(tensor_list tensors, microbatch_key key,
                           bool backward) {
  const auto& placement = step_->plan->placement;
  const auto to = setup_.stage + (backward ? -1 : 1);
  if (placement.rank_of(to) == setup_.rank)
    ports_.deliver(
      to, pack(setup_, *step_, std::move(tensors), key, backward, none));
  else
    outbox_.emplace(std::pair{backward, key},
                    made_tensors{std::move(tensors), device_.mark()});
}

void stage_runner::send_out(const plan_op& op) {
  const auto& message =
    step_->plan->messages[static_cast<std::size_t>(op.message)];
  const bool backward =
    step_->plan->channels[static_cast<std::size_t>(message.channel)].backward;
  const microbatch_key key{op.microbatch, op.slice};
  auto node = outbox_.extract({backward, key});
  if (node.empty())
    fail(error_code::internal, "{} has nothing to send for microbatch {}",
         to_text(*step_->plan, op), op.microbatch);
  const auto to = setup_.stage + (backward ? -1 : 1);
  auto [tensors, made_at] = std::move(node.mapped());
  const bool far = device_ && setup_.is_far && setup_.is_far(to);
  if (far && !setup_.links) {
    tensors = device_.to_host(tensors);
    made_at = nullptr;
  }
  auto packed =
    pack(setup_, *step_, std::move(tensors), key, backward, op.message);
  packed.ready = made_at;
  if (far && setup_.links) {
    setup_.links->send(setup_.data_rank, setup_.stage, to, packed.tensors,
                       made_at, to_text(*step_->plan, op));
    packed.header.by_device = true;
    packed.tensors.clear();
    packed.ready = nullptr;
  }
  ports_.deliver(to, std::move(packed));
}

void stage_runner::finish_step() {
  auto result = setup_.work->end_step();
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
               std::move(records_), tokens_, std::move(messages_)});
  records_ = {};
  messages_ = {};
}

void stage_runner::show(progress_board::state state) const {
  setup_.board->set(setup_.data_rank, setup_.rank, {token_->position, state});
}

}  // namespace troupe
