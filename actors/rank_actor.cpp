#include "troupe/actors/rank_actor.hpp"

#include "troupe/actors/rank_runner.hpp"
#include "troupe/actors/spin_sharing.hpp"

namespace troupe {

namespace {

class actor_ports final : public rank_ports {
 public:
  actor_ports(caf::event_based_actor* self, address_book_pointer book,
              std::int32_t data_rank)
    : self_(self), book_(std::move(book)), data_rank_(data_rank) {}

  void begin(std::int32_t stage, const begin_step& message) override {
    self_->send(book_->stage(data_rank_, stage), message);
  }
  /// The rank has nothing to do until the stage answers.
  void run(std::int32_t stage, run_op request) override {
    const running_next soon;
    self_->send(book_->stage(data_rank_, stage), std::move(request));
  }
  void end(std::int32_t stage, const end_step& message) override {
    self_->send(book_->stage(data_rank_, stage), message);
  }
  void deliver(std::int32_t rank, stage_tensors message) override {
    if (const auto& to = book_->rank(data_rank_, rank))
      self_->send(to, std::move(message));
    else
      book_->links->deliver(book_->links->layout().process_of(data_rank_, rank),
                            std::move(message));
  }
  void want(want_data request) override {
    self_->send(book_->loaders[static_cast<std::size_t>(data_rank_)],
                std::move(request));
  }
  void done(rank_done report) override {
    self_->send(book_->coordinator, std::move(report));
  }

 private:
  caf::event_based_actor* self_;
  address_book_pointer book_;
  std::int32_t data_rank_;
};

struct rank_state {
  rank_state(caf::event_based_actor* actor, const rank_setup& setup,
             address_book_pointer addresses, handler_hook before)
    : self(actor),
      book(std::move(addresses)),
      guard{std::move(before)},
      ports(actor, book, setup.data_rank),
      runner(setup, ports) {}

  template <class Message>
  void handle(Message&& message) {
    guard.run(
      self, *book,
      [this] {
        return op_failure{runner.source(), runner.current_op(), {}};
      },
      [&] { runner.on(std::forward<Message>(message)); });
  }

  caf::event_based_actor* self;
  address_book_pointer book;
  handler_guard guard;
  actor_ports ports;
  rank_runner runner;
};

}  // namespace

caf::behavior rank_actor(caf::event_based_actor* self, const rank_setup& setup,
                         const address_book_pointer& book,
                         const handler_hook& hook) {
  auto state = std::make_shared<rank_state>(self, setup, book, hook);
  return {
    [state](op_launched& answer) { state->handle(std::move(answer)); },
    [state](stage_tensors& message) { state->handle(std::move(message)); },
    [state](loaded_data& message) { state->handle(std::move(message)); },
    [state](const begin_step& message) { state->handle(message); },
    [state](const gradients_reduced& message) { state->handle(message); },
    [state](const norm_known& message) { state->handle(message); },
    [state](stage_done& report) { state->handle(std::move(report)); },
  };
}

}  // namespace troupe
