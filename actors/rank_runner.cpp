#include "troupe/actors/rank_runner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/plan/op_text.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

std::int64_t bytes_of(const tensor_list& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

}  // namespace

rank_runner::rank_runner(rank_setup setup, rank_ports& ports)
  : setup_(std::move(setup)),
    ports_(ports),
    device_(setup_.device),
    data_(setup_, ports_),
    transfers_(setup_, ports_, values_, device_) {}

event_source rank_runner::source() const {
  event_source source;
  source.data_rank = setup_.data_rank;
  source.rank = setup_.rank;
  if (!step_)
    return source;
  source.step = step_->settings.step;
  source.phase = step_->settings.phase;
  if (const auto at = executor_->position()) {
    source.stage = op_at(*at).stage;
    source.microbatch = op_at(*at).microbatch;
    source.slice = op_at(*at).slice;
  }
  return source;
}

std::string rank_runner::current_op() const {
  const auto at = executor_ ? executor_->position() : std::nullopt;
  return at ? to_text(*step_->plan, op_at(*at)) : std::string{};
}

/// Of the plans of training and evaluation, and of a step's parts.
void rank_runner::look_up(const std::shared_ptr<const plan>& of) {
  constexpr std::size_t most = 4;
  const auto known = std::ranges::find(plans_, of, &known_plan::of);
  if (known == plans_.end()) {
    if (plans_.size() == most)
      plans_.pop_back();
    plans_.insert(plans_.begin(), describe(of));
  } else {
    std::rotate(plans_.begin(), known, known + 1);
    plans_.front().executor->begin();
  }
  executor_ = plans_.front().executor.get();
}

rank_runner::known_plan rank_runner::describe(
  const std::shared_ptr<const plan>& of) const {
  known_plan made{
    of,
    std::make_unique<lane_executor>(*of, setup_.rank, setup_.order),
    {},
    {}};
  const auto r = static_cast<std::size_t>(setup_.rank);
  for (auto op = of->first_op[r]; op < of->first_op[r + 1]; ++op) {
    if (reads_data(of->ops[op]))
      made.readers.push_back(op);
    if (of->ops[op].kind == plan_op_kind::update)
      made.updates.push_back(op);
  }
  std::ranges::sort(made.readers, {}, [&](std::uint32_t op) {
    return std::pair{of->ops[op].stage, of->ops[op].microbatch};
  });
  return made;
}

bool rank_runner::reads_data(const plan_op& op) const {
  return op.kind == plan_op_kind::forward
         && setup_.needs_data[static_cast<std::size_t>(op.stage)];
}

void rank_runner::require_current(std::int64_t serial, const char* what) const {
  if (!step_ || serial != step_->serial)
    fail(error_code::internal, "rank {} got {} of another step", setup_.rank,
         what);
}

void rank_runner::on(const begin_step& message) {
  step_ = message.step;
  look_up(step_->plan);
  report_ = {step_->serial, setup_.data_rank, setup_.rank};
  timed_.clear();
  stages_.clear();
  values_.clear();
  reductions_.clear();
  reduced_.clear();
  after_.clear();
  ending_ = false;
  waits_since_ = 0;
  transfers_.begin(step_);
  for (const auto op : plans_.front().readers)
    executor_->hold(op);
  if (setup_.waits_for_norm)
    for (const auto op : plans_.front().updates)
      executor_->hold(op);
  for (std::int32_t s = 0; s < step_->plan->stages(); ++s)
    if (step_->plan->placement.rank_of(s) == setup_.rank) {
      stages_.push_back(s);
      ports_.begin(s, message);
    }
  stages_left_ = stages_.size();
  data_.begin(step_);
  for (auto& each : std::exchange(early_, {}))
    on(std::move(each));
  // It may have come first, as the squares of one replica are enough for it.
  if (norm_ && norm_->serial == step_->serial)
    apply_norm();
  else
    norm_.reset();
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
  transfers_.on(std::move(message));
  advance();
}

void rank_runner::on(loaded_data message) {
  const auto stage = message.stage;
  const auto microbatch = message.microbatch;
  data_.put(std::move(message));
  const auto readers = std::ranges::equal_range(
    plans_.front().readers, std::pair{stage, microbatch}, {},
    [this](std::uint32_t op) {
      return std::pair{op_at(op).stage, op_at(op).microbatch};
    });
  for (const auto op : readers)
    executor_->release(op);
  advance();
}

/// The reducer may answer before the stage does, which has asked it.
void rank_runner::on(const gradients_reduced& message) {
  require_current(message.serial, "averaged gradients");
  const bool first = reduced_.emplace(message.stage, message).second;
  const auto asked = reductions_.extract(message.stage);
  if (!first || (asked.empty() && !executor_->launching()))
    fail(error_code::internal, "stage {} asked for no reduction",
         message.stage);
  if (!asked.empty())
    end_reduction(asked.mapped(), message.ready);
  advance();
}

void rank_runner::end_reduction(std::uint32_t op, const event_handle& ready) {
  if (ready && step_->settings.part == step_part::gradients)
    report_.reduced.push_back(ready);
  if (ready && op_at(op).stream == stream_kind::compute)
    after_.push_back(ready);
  executor_->ended(op);
}

void rank_runner::on(const norm_known& message) {
  const auto now = step_ ? step_->serial : 0;
  if (message.serial < now || (norm_ && norm_->serial == message.serial))
    return;
  norm_ = message;
  if (message.serial != now)
    return;
  apply_norm();
  advance();
}

/// All norms have ended, those of other ranks among them.
void rank_runner::apply_norm() {
  const auto& updates = plans_.front().updates;
  if (updates.empty())
    return;
  for (const auto norm : step_->plan->dependencies_of(op_at(updates.front())))
    if (step_->plan->rank_of(norm) != setup_.rank)
      executor_->ended(norm);
  if (setup_.waits_for_norm)
    for (const auto op : updates)
      executor_->release(op);
}

void rank_runner::advance() {
  if (!step_ || executor_->launching() || ending_)
    return;
  for (const auto receive : transfers_.complete())
    executor_->ended(receive);
  while (const auto op = executor_->next()) {
    start(*op);
    if (executor_->launching())
      return;
    for (const auto receive : transfers_.complete())
      executor_->ended(receive);
  }
  if (executor_->finished())
    end_stages();
  else
    wait();
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
    transfers_.send(op_at(op), record.begin);
  else
    transfers_.post(op);
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
  if (is_compute(what.kind) && !step_->recorded) {
    const auto scope = device_.enter();
    data_.bring(device_);
  }
  request.inputs = take_input(what, request.ready);
  if (reads_data(what))
    take_data(what, request);
  if (what.stream == stream_kind::compute)
    request.after = std::exchange(after_, {});
  if (what.kind == plan_op_kind::gradient_norm)
    if (const auto at = reduced_.find(what.stage); at != reduced_.end()) {
      if (at->second.ready)
        request.after.push_back(at->second.ready);
      record.ready = at->second.sent;
    }
  if (what.kind == plan_op_kind::update && norm_) {
    request.norm = norm_;
    if (setup_.waits_for_norm)
      record.ready = norm_->sent;
  }
  waits_since_ = 0;
  ports_.run(what.stage, std::move(request));
}

tensor_list rank_runner::take_input(const plan_op& op, event_handle& ready) {
  const auto input = input_of(*step_->plan, op);
  if (!input)
    return {};
  auto taken = values_.take(*input);
  auto& record = report_.ops.back();
  record.ready = taken.sent;
  record.left = taken.left;
  record.arrived = taken.arrived;
  note_message(taken);
  ready = std::move(taken.ready);
  return std::move(taken.tensors);
}

void rank_runner::note_message(const held_value& taken) {
  if (!step_->settings.tells_messages || taken.message == none)
    return;
  const auto now = now_ns();
  report_.messages.push_back({taken.message, bytes_of(taken.tensors),
                              taken.sent, taken.left, taken.arrived, now,
                              waits_since_ == 0 ? 0 : now - waits_since_});
}

void rank_runner::take_data(const plan_op& op, run_op& request) {
  auto held = data_.take(op.stage, op.microbatch);
  auto& record = report_.ops.back();
  if (held.sent > record.ready) {
    record.ready = held.sent;
    record.left = record.arrived = 0;
  }
  if (!input_of(*step_->plan, op))
    report_.tokens += held.data->tokens;
  request.data = std::move(held.data);
  request.data_ready = std::move(held.ready);
}

void rank_runner::on(op_launched answer) {
  require_current(answer.serial, "the end of an op");
  const auto op = answer.op;
  auto& record = report_.ops.back();
  record.begin = answer.begin;
  record.end = answer.end;
  if (answer.device_end)
    timed_.push_back({report_.ops.size() - 1, std::move(answer.device_begin),
                      std::move(answer.device_end)});
  executor_->launched(op);
  if (const auto output = output_of(*step_->plan, op_at(op)))
    values_.put(*output, {.tensors = std::move(answer.outputs),
                          .ready = std::move(answer.ready),
                          .sent = answer.end});
  if (op_at(op).kind == plan_op_kind::reduce)
    asked_reduction(answer);
  else
    executor_->ended(op);
  advance();
}

/// Averaged on devices it has its end; the reducer may have told it, or will.
void rank_runner::asked_reduction(const op_launched& answer) {
  const auto stage = op_at(answer.op).stage;
  if (answer.ended)
    reduced_.emplace(
      stage, gradients_reduced{answer.serial, stage, answer.end, answer.ready});
  if (const auto known = reduced_.find(stage); known != reduced_.end())
    end_reduction(answer.op, known->second.ready);
  else
    reductions_.emplace(stage, answer.op);
}

void rank_runner::wait() {
  if (waits_since_ == 0)
    waits_since_ = now_ns();
  show(progress_board::state::waiting);
}

void rank_runner::end_stages() {
  ending_ = true;
  show(progress_board::state::idle);
  for (const auto stage : stages_)
    ports_.end(stage, {step_->serial});
  if (stages_.empty())
    finish();
}

void rank_runner::on(stage_done report) {
  require_current(report.serial, "the end of a stage");
  report_.stages.push_back(std::move(report));
  if (--stages_left_ == 0)
    finish();
}

void rank_runner::finish() {
  require_nothing_left();
  settle_times();
  std::ranges::sort(report_.stages, {}, &stage_done::stage);
  if (step_->settings.tells_memory)
    report_.memory = memory_event{
      {}, resident_bytes(), peak_resident_bytes(), physical_bytes()};
  ports_.done(std::move(report_));
  report_ = {};
}

void rank_runner::settle_times() {
  for (const auto& [at, begin, end] : std::exchange(timed_, {})) {
    end->wait();
    auto& record = report_.ops[at];
    record.host_begin = record.begin;
    record.host_end = record.end;
    record.begin = setup_.device->host_ns(*begin);
    record.end = setup_.device->host_ns(*end);
  }
}

void rank_runner::require_nothing_left() const {
  const auto values = values_.left();
  if (!values.empty() || transfers_.left() > 0 || !data_.empty())
    fail(error_code::internal,
         "rank {}: at the end of the step {} messages and {} microbatches of "
         "data were left{}{}",
         setup_.rank, transfers_.left(), data_.size(),
         values.empty() ? "" : ", and ", values);
}

void rank_runner::show(progress_board::state state) const {
  setup_.board->set(setup_.data_rank, setup_.rank,
                    {executor_->position().value_or(0), state});
}

}  // namespace troupe
