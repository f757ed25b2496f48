#include "troupe/actors/stage_runner.hpp"

#include "troupe/actors/recording.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/plan/op_text.hpp"
#include "troupe/engine/stage/microbatch.hpp"

// How tensors come to a stage and leave it.
namespace troupe {

namespace {

std::int64_t bytes_of(const tensor_list& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors)
    bytes += tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  return bytes;
}

}  // namespace

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
  return brought(*item.data, [&](const at::Tensor& tensor) {
    return device_.take({tensor}, item.ready)[0];
  });
}

void stage_runner::ask_for_data(std::int32_t up_to) {
  up_to = std::min(up_to, step_->plan->microbatches);
  for (; asked_for_ < up_to; ++asked_for_)
    ports_.want({step_, setup_.stage, asked_for_});
}

/// A skipped op hands on no tensors.
void stage_runner::hand_on(tensor_list tensors, microbatch_key key,
                           bool backward, bool skipped) {
  const auto& placement = step_->plan->placement;
  const auto to = setup_.stage + (backward ? -1 : 1);
  if (placement.rank_of(to) == setup_.rank)
    ports_.deliver(
      to, pack(setup_, *step_, std::move(tensors), key, backward, none));
  else
    outbox_.emplace(
      std::pair{backward, key},
      made_tensors{std::move(tensors), skipped ? nullptr : device_.mark()});
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

/// The rank's next ops start after a reduction that may not overlap.
void stage_runner::hold_back_others() {
  if (!device_ || !reduced_ || setup_.overlap.reduce)
    return;
  const auto wait = [this] {
    const auto scope = device_.enter();
    await_reduction();
  };
  if (step_->recorded)
    step_->recorded->attempt("a reduction", wait);
  else
    wait();
}

/// The op that it waits for has begun already, and stands before.
void stage_runner::show_reduction() const {
  const auto& ops = token_->step->plan->ops;
  auto at = token_->position;
  while (ops[at].kind != plan_op_kind::reduce || ops[at].stage != setup_.stage)
    --at;
  setup_.board->set(setup_.data_rank, setup_.rank,
                    {at, progress_board::state::waiting});
}

}  // namespace troupe
