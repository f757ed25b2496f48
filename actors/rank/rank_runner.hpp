#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/job/address_book.hpp"
#include "troupe/actors/rank/op_values.hpp"
#include "troupe/actors/rank/rank_setup.hpp"
#include "troupe/actors/rank/stage_device.hpp"
#include "troupe/actors/rank/stage_runner.hpp"
#include "troupe/engine/device/memory.hpp"

namespace troupe {

/// What a rank actor decides and does, apart from sending: executes its part of
/// the plan. The executor tells which op starts; sends and receives are done
/// here, all others by the stages, which get the values that the op reads and
/// give those that it makes. One op is launched at a time: until its stage
/// answers, the rank's device is the stage's. Errors leave with `current_op`
/// telling where the rank stood. One thread at a time.
class rank_runner {
 public:
  rank_runner(rank_setup setup, rank_ports& ports);
  rank_runner(const rank_runner&) = delete;
  rank_runner& operator=(const rank_runner&) = delete;

  void on(const begin_step& message);
  void on(op_launched answer);
  void on(stage_tensors message);
  void on(loaded_data message);
  void on(const chosen_tokens& message);
  void on(collective_result message);
  void on(const norm_verdict& message);
  void on(stage_done report);

  const rank_setup& setup() const { return setup_; }

  event_source source() const;
  std::string current_op() const;

 private:
  const plan_op& op_at(std::uint32_t op) const { return step_->plan->ops[op]; }
  void require_current(std::int64_t serial, const char* what) const;
  lane_executor& begin_executor(const step_context& step);

  void advance();
  void take_messages();
  void start(std::uint32_t op);
  void transfer(std::uint32_t op);
  void launch(std::uint32_t op);
  bool runs_beside(std::uint32_t op);
  void feed_back(const op_launched& answer);
  void wait();
  void end_stages();
  void finish();
  void show(progress_board::state state) const;

  rank_setup setup_;
  rank_ports& ports_;
  stage_device device_;
  op_values values_;
  step_pointer step_;
  lane_executor* executor_ = nullptr;  // the step's plan's
  rank_done report_;
  /// A verdict may come before the step begins here, as the powers of one
  /// replica are enough for it.
  std::optional<norm_verdict> norm_;
  std::map<stage_instance, std::uint32_t> asked_;  // collectives, by stage
  std::vector<stage_instance> stages_;             // of this rank
  std::int64_t last_compute_ = none;  // the op of those streams before
  bool ending_ = false;
  std::vector<stage_tensors> early_;  // of steps that have not begun here
  std::int64_t waits_since_ = 0;      // 0: an op is being launched
  std::int64_t usable_bytes_ = usable_bytes();
};

/// What the actors of one rank share, a rank actor and its stages' actors: they
/// are of one strand, so that one of them runs at a time. Whichever gets a
/// message tells the rank's runner; the op that starts then runs in its stage's
/// actor.
class rank_members final : public rank_ports {
 public:
  rank_members(const rank_setup& setup, address_book_pointer book,
               handler_hook hook)
    : data_rank_(setup.data_rank),
      book_(std::move(book)),
      guard_{std::move(hook)},
      rank_(setup, *this) {}

  /// Before the first message.
  void add(const stage_setup& stage) {
    stages_.emplace(
      stage.stage, std::make_unique<stage_runner>(rank_.setup(), stage, *this));
  }
  rank_runner& rank() { return rank_; }
  stage_runner& stage(stage_instance stage) { return *stages_.at(stage); }

  /// Runs a handler of a member, a stage's or (of stage `none`) the rank's own;
  /// then the op that starts goes to its stage.
  template <class Work>
  void handle(caf::event_based_actor* self, stage_instance stage, Work&& work) {
    self_ = self;
    guard_.run(
      self, *book_, [this, stage] { return failure_of(stage); },
      std::forward<Work>(work));
    if (auto next = take())
      self->send(book_->stage(data_rank_, next->first),
                 std::move(next->second));
  }

  /// A message for the rank that came to one of its stages: if its own op
  /// starts, that runs at once.
  template <class Message>
  void receive(caf::event_based_actor* self, stage_instance stage,
               Message&& message) {
    handle(self, stage, [&] {
      rank_.on(std::forward<Message>(message));
      if (next_ && next_->first == stage)
        run_op_of(stage, std::move(take()->second));
    });
  }
  void run_op_of(stage_instance stage, run_op request) {
    rank_.on(stages_.at(stage)->on(std::move(request)));
  }

  // Messages to other actors.
  void begin(stage_instance stage, const begin_step& message) override {
    stages_.at(stage)->on(message);
  }
  void run(stage_instance stage, run_op request) override {
    next_.emplace(stage, std::move(request));
  }
  void end(stage_instance stage, end_step message) override {
    self_->send(book_->stage(data_rank_, stage), std::move(message));
  }
  void deliver(stage_tensors message) override {
    const stage_instance stage{message.header.to_stage, message.header.copy};
    if (const auto& target = book_->stage(data_rank_, stage))
      self_->send(target, std::move(message));
    else
      book_->links->deliver(book_->process_of(data_rank_, stage),
                            std::move(message));
  }
  void feed(chosen_tokens tokens) override {
    if (const auto& target = book_->stage(data_rank_, {}))
      self_->send(target, std::move(tokens));
    else
      book_->links->mesh().send(book_->process_of(data_rank_, {}),
                                to_frame(tokens));
  }
  void want(want_data request) override {
    self_->send(book_->loaders[static_cast<std::size_t>(data_rank_)],
                std::move(request));
  }
  void done(rank_done report) override {
    self_->send(book_->coordinator, std::move(report));
  }
  void reduce(collective_request request) override {
    const auto& target =
      book_->reducer(kind_of(request.work), request.data_rank, request.owner);
    self_->send(target, std::move(request));
  }
  void powers(stage_powers powers) override {
    self_->send(book_->coordinator, std::move(powers));
  }

 private:
  std::optional<std::pair<stage_instance, run_op>> take() {
    return std::exchange(next_, std::nullopt);
  }
  /// Where the rank stands: at the op that a stage runs, if one does.
  op_failure failure_of(stage_instance stage) const {
    op_failure failure{rank_.source(), rank_.current_op(), {}};
    if (failure.source.stage == none)
      failure.source.stage = stage.stage;
    return failure;
  }

  std::int32_t data_rank_;
  address_book_pointer book_;
  handler_guard guard_;
  std::map<stage_instance, std::unique_ptr<stage_runner>> stages_;
  std::optional<std::pair<stage_instance, run_op>> next_;  // not sent yet
  caf::event_based_actor* self_ = nullptr;  // the member that runs
  rank_runner rank_;
};

using rank_members_pointer = std::shared_ptr<rank_members>;

/// One rank of one replica: begins its steps and ends them. See `rank_runner`.
behavior_for<rank_handle> rank_actor(caf::event_based_actor* self,
                                     const rank_members_pointer& members);

/// One stage of one replica: runs the ops that `stage_runner` describes. What
/// others send it for them goes to its rank's `rank_runner`.
behavior_for<stage_handle> stage_actor(caf::event_based_actor* self,
                                       stage_instance stage,
                                       const rank_members_pointer& members);

}  // namespace troupe
