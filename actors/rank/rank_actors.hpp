#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "troupe/actors/job/address_book.hpp"
#include "troupe/actors/rank/rank_runner.hpp"

namespace troupe {

/// The state that the actors of a rank's stages share: they are of one strand,
/// so that one of them runs at a time. Whichever gets a message tells the
/// rank's runner; the op that starts then runs in its stage's actor.
class rank_members final : public rank_ports {
 public:
  rank_members(const rank_setup& setup, address_book_pointer book,
               handler_hook hook)
    : data_rank_(setup.data_rank),
      book_(std::move(book)),
      guard_{std::move(hook)},
      rank_(setup, *this) {}

  rank_runner& rank() { return rank_; }

  /// Runs a handler of a member, for a stage or (`none`) for the rank; then the
  /// op that starts goes to its stage.
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
        rank_.run(stage, std::move(take()->second));
    });
  }

  // Messages to other actors.
  void run(stage_instance stage, run_op request) override {
    next_.emplace(stage, std::move(request));
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
      book_->links->job().send(book_->process_of(data_rank_, {}),
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
  /// A failure at the place where the rank stands: at the op that a stage runs,
  /// if one does.
  op_failure failure_of(stage_instance stage) const {
    op_failure failure{rank_.source(), rank_.current_op(), {}};
    if (failure.source.stage == none)
      failure.source.stage = stage.stage;
    return failure;
  }

  std::int32_t data_rank_;
  address_book_pointer book_;
  handler_guard guard_;
  std::optional<std::pair<stage_instance, run_op>> next_;  // not sent yet
  caf::event_based_actor* self_ = nullptr;  // the member that runs
  rank_runner rank_;
};

using rank_members_pointer = std::shared_ptr<rank_members>;

/// The actor of a stage: runs its ops, and tells its rank's `rank_runner` what
/// others send it. The first stage's actor gets the messages to the rank, too.
behavior_for<stage_handle> stage_actor(caf::event_based_actor* self,
                                       stage_instance stage,
                                       const rank_members_pointer& members);

}  // namespace troupe
