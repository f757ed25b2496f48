#include "troupe/actors/rank/stage_runner.hpp"

#include <fmt/format.h>

#include <utility>

#include "troupe/actors/reduction/device_collectives.hpp"
#include "troupe/actors/step/recording.hpp"
#include "troupe/actors/step/step_gate.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/profiler.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/parameters/sharded_parameters.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe {

namespace {

/// Keeps the worker busy, as a slower device would.
void wait_until(std::int64_t when) {
  while (now_ns() < when) {
  }
}

/// Holds the gate open for an op while it lives.
class gate_scope {
 public:
  explicit gate_scope(step_gate& gate) : gate_(gate) {
    if (!gate_.enter())
      fail(error_code::interrupted, "the step was abandoned");
  }
  gate_scope(const gate_scope&) = delete;
  gate_scope& operator=(const gate_scope&) = delete;
  ~gate_scope() { gate_.leave(); }

 private:
  step_gate& gate_;
};

microbatch_key key_of(const plan_op& op) {
  return {op.microbatch, op.slice};
}

/// A part of a joint op that could not be recorded, as the other members wait
/// for it.
collective_work empty_work(plan_op_kind kind) {
  if (kind == plan_op_kind::gather)
    return all_gather{};
  if (traits_of(kind).group == op_group::holders)
    return tied_sum{};
  return all_reduce{};
}

}  // namespace

stage_runner::stage_runner(const rank_setup& rank, stage_setup setup,
                           rank_ports& ports)
  : rank_(rank),
    setup_(std::move(setup)),
    ports_(ports),
    device_(setup_.device) {}

void stage_runner::begin(step_pointer step) {
  running_ = nullptr;
  step_ = std::move(step);
  setup_.work.compute->begin_step(step_->settings);
  setup_.work.parameters->begin_step(step_->settings);
}

op_launched stage_runner::run(run_op request) {
  const gate_scope gate(*step_->gate);
  running_ = &step_->plan->ops[request.op];
  const auto name = [&] { return to_text(*step_->plan, *running_); };
  const profiled_range range(name);
  op_launched answer;
  const bool done =
    launch(step_->recorded, name, [&] { run_timed(request, answer); });
  if (!done) {
    answer.outputs.clear();
    answer.states = {};
    work_ = empty_work(running_->kind);
    answer.ready = nullptr;
    answer.begin = now_ns();
  }
  answer.serial = step_->serial;
  answer.op = request.op;
  answer.end = now_ns();
  if (is_joint(running_->kind))
    ask(std::move(work_), answer);
  running_ = nullptr;
  return answer;
}

/// Runs the op, with times on the device if its step runs whole and at once.
void stage_runner::run_timed(run_op& request, op_launched& answer) {
  const auto scope = device_.enter();
  if (is_copy(running_->kind))
    return copy(request, answer);
  for (const auto& event : request.after)
    device_.wait_for(event);
  if (!request.beside)
    device_.join();
  const bool timed = traits_of(*running_).type != op_class::collective
                     && step_->settings.part != step_part::gradients;
  // A launched step noted the time before.
  if (timed && step_->settings.part == step_part::whole)
    device_.begin_step(step_->serial);
  if (timed)
    device_.begin_op();
  answer.begin = now_ns();
  run_by_kind(request, answer);
  if (setup_.slow > 1 && is_compute(running_->kind)
      && step_->settings.step >= setup_.slow_from)
    wait_until(answer.begin
               + static_cast<std::int64_t>(
                 static_cast<double>(now_ns() - answer.begin) * setup_.slow));
  if (timed)
    device_.end_op(answer);
}

void stage_runner::run_by_kind(run_op& request, op_launched& answer) {
  if (const auto& shards = setup_.work.shards;
      shards && is_compute(running_->kind))
    shards->require_whole(to_text(*step_->plan, *running_));
  switch (running_->kind) {
    case plan_op_kind::forward:
      return forward(request, answer);
    case plan_op_kind::backward:
    case plan_op_kind::input_backward:
    case plan_op_kind::weight_backward:
      return backward(request, answer);
    case plan_op_kind::gather:
      work_ = shards().begin_gather();
      break;
    case plan_op_kind::release:
      return release(request);
    case plan_op_kind::reduce:
      work_ = setup_.work.parameters->begin_reduction();
      break;
    case plan_op_kind::sum_tied:
      work_ = sum_tied(request);
      break;
    case plan_op_kind::gradient_norm:
      return tell_norm(request);
    case plan_op_kind::update:
      return update(request.norm);
    default:
      fail(error_code::invalid_argument, "a stage cannot run {}",
           to_text(*step_->plan, *running_));
  }
  answer.ready = device_.mark();
}

tensor_lists stage_runner::take(run_op& request) {
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    request.inputs[i] =
      device_.take(std::move(request.inputs[i]), request.ready[i]);
  return std::move(request.inputs);
}

void stage_runner::forward(run_op& request, op_launched& answer) {
  auto inputs = take(request);
  const auto loaded = std::move(request.data);
  microbatch_data data;
  if (loaded && device_)
    data = transformed(*loaded, [&](const at::Tensor& tensor) {
      return device_.take({tensor}, request.data_ready)[0];
    });
  else if (loaded)
    data = *loaded;
  auto version = read_version();
  auto outputs = setup_.work.compute->forward(
    key_of(*running_), std::move(inputs), data, std::move(request.states));
  outputs.states.version = std::move(version);
  give(std::move(outputs), answer);
}

/// The version of the parameters that the op reads; null where a step has one.
std::shared_ptr<stage_state> stage_runner::read_version() {
  const auto& plan = *step_->plan;
  if (plan.update.every == 0)
    return nullptr;
  return setup_.work.parameters->read_version(
    version_of(plan, *running_), running_->microbatch + 1 == plan.microbatches);
}

void stage_runner::backward(run_op& request, op_launched& answer) {
  if (step_->plan->update.every > 0)
    setup_.work.parameters->read_again(request.states.version);
  give(setup_.work.compute->backward(static_cast<op_kind>(running_->kind),
                                     key_of(*running_), take(request),
                                     std::move(request.states)),
       answer);
}

/// Values that stay on the rank are read by ops that come after this one: the
/// ops of a pair read nothing of each other.
void stage_runner::give(op_outputs outputs, op_launched& answer) const {
  answer.outputs = std::move(outputs.tensors);
  answer.states = std::move(outputs.states);
  answer.chosen = std::move(outputs.chosen);
  if (device_ && leaves_rank(*step_->plan, *running_))
    answer.ready = device_.mark();
}

/// Copies a context on the stream of the op's kind, behind all that the stage's
/// compute stream was given: values to copy are there, and memory to copy to is
/// free.
void stage_runner::copy(run_op& request, op_launched& answer) {
  auto context = std::move(request.states.context);
  auto* const device = device_.get();
  const bool goes = running_->kind == plan_op_kind::offload;
  auto* const stream =
    device ? &(goes ? device->offloads() : device->reloads()) : nullptr;
  if (stream) {
    request.after.push_back(device_.mark());
    for (const auto& event : request.after)
      stream->wait_for(*event);
    answer.device_begin = stream->record();
  }
  answer.begin = now_ns();
  if (goes)
    context->offload(device);
  else
    context->reload(device);
  if (stream)
    answer.ready = answer.device_end = stream->record();
  answer.states.context = std::move(context);
}

tied_sum stage_runner::sum_tied(run_op& request) {
  put_reduced(request);
  return setup_.work.parameters->begin_tied_sum();
}

/// Puts back gradients that were reduced; the stage has its own if the plan
/// reduces nothing.
void stage_runner::put_reduced(run_op& request) {
  const auto ready = request.ready.empty() ? nullptr : request.ready.front();
  for (auto& reduced : take(request))
    setup_.work.parameters->put_gradients(
      std::move(reduced), device_.take({request.present}, ready).front());
}

/// The result is the answer's, unless the reducer will tell.
void stage_runner::ask(collective_work work, op_launched& answer) {
  const auto& owner = setup_.instance;
  const bool sums = kind_of(work) == collective_kind::tied_sum;
  if (!rank_.reduces && !sums) {
    auto* const own = gradients_of(work);
    answer.outputs.push_back(own ? std::move(own->gradients) : tensor_list{});
    return;
  }
  collective_request request{answer.serial,
                             owner,
                             rank_.data_rank,
                             std::move(work),
                             device_ ? device_.get()->hardware() : nullptr,
                             answer.ready,
                             step_->recorded};
  const auto& links = rank_.links;
  if (!links
      || !(sums ? links->sums_tied(rank_.data_rank, owner.copy)
                : links->reduces(owner.stage))) {
    answer.asked = true;
    return ports_.reduce(std::move(request));
  }
  auto reduced = std::move(reducer_of(sums).on(std::move(request)).at(0));
  answer.outputs.push_back(std::move(reduced.gradients));
  answer.present = std::move(reduced.present);
  answer.ready = std::move(reduced.ready);
}

reducer_core& stage_runner::reducer_of(bool sums) {
  auto& reducer = sums ? tied_reducer_ : reducer_;
  if (!reducer)
    reducer.emplace(
      sums ? make_tied_device_collectives(rank_.links, rank_.data_rank,
                                          setup_.instance.copy)
           : make_device_collectives(rank_.links, setup_.instance.stage),
      1);
  return *reducer;
}

sharded_parameters& stage_runner::shards() const {
  if (!setup_.work.shards)
    fail(error_code::invalid_argument,
         "the plan has {}, and the parameters of stage {} are not sharded",
         to_text(*step_->plan, *running_), setup_.instance.stage);
  return *setup_.work.shards;
}

/// A gather whose parameters no op has read is waited for.
void stage_runner::release(run_op& request) {
  take(request);
  shards().release();
}

/// The norm of an update that runs alone reads the gradients that the stage has
/// kept.
void stage_runner::tell_norm(run_op& request) {
  auto& parameters = *setup_.work.parameters;
  put_reduced(request);
  // The last one counts, if a step has several updates.
  const bool counts = running_->microbatch == none
                      || running_->microbatch + 1 == step_->plan->microbatches;
  if (!counts)
    return;
  const bool first_copy = setup_.instance.copy == 0;
  if (first_copy)
    parameters.show();
  // Replicas and copies hold the same gradients by now: one is enough, or one
  // of each shard.
  const auto& shards = setup_.work.shards;
  const bool tells =
    first_copy && rank_.data_rank < (shards ? shards->place().shards : 1);
  const bool watched = step_->settings.reading == step_reading::watched;
  if (!tells && !watched)
    return;
  stage_powers message{step_->serial, setup_.instance.stage};
  message.shard = tells ? rank_.data_rank : none;
  if (tells)
    message.powers = parameters.norm_powers();
  if (const auto last = last_not_finite(message.powers); last >= 0)
    message.not_finite =
      parameters.name_of_power(static_cast<std::size_t>(last));
  if (watched) {
    message.hit = setup_.work.compute->has_hit();
    message.changed_buffers = setup_.work.compute->changed_buffers();
  }
  ports_.powers(std::move(message));
}

void stage_runner::update(const std::optional<norm_verdict>& norm) {
  const auto factor = norm ? norm->factor : 1.0 / step_->settings.loss_scale;
  const bool overflowed = norm && !norm->update;
  if (step_->settings.skip_update || overflowed)
    return;
  if (!step_->gate->begin_update())
    fail(error_code::interrupted, "the step was abandoned");
  setup_.work.parameters->update(factor);
}

stage_done stage_runner::end(end_step message) {
  const auto scope = device_.enter();
  stage_done done{step_->serial, setup_.instance, {}};
  if (message.gathered)
    device_.wait_for(message.gathered);
  const auto end = [&] {
    if (!message.gradients.empty())
      setup_.work.parameters->put_gradients(std::move(message.gradients),
                                            std::move(message.present));
    if (step_->settings.part == step_part::gradients)
      setup_.work.parameters->keep_gradients();
    done.result = setup_.work.compute->end_step();
  };
  launch(
    step_->recorded,
    [&] { return fmt::format("the end of stage {}", setup_.instance.stage); },
    end);
  return done;
}

}  // namespace troupe
