#include "troupe/actors/stage_actor.hpp"

namespace troupe {

namespace {

class actor_ports final : public stage_ports {
 public:
  actor_ports(caf::event_based_actor* self, address_book_pointer book,
              std::int32_t data_rank, std::int32_t rank)
    : self_(self), book_(std::move(book)), data_rank_(data_rank), rank_(rank) {}

  void pass(std::int32_t stage, lane_token token) override {
    self_->send(stage == none ? book_->rank(data_rank_, rank_)
                              : book_->stage(data_rank_, stage),
                std::move(token));
  }

  void deliver(std::int32_t stage, stage_tensors message) override {
    if (const auto& to = book_->stage(data_rank_, stage))
      self_->send(to, std::move(message));
    else
      book_->links->deliver(book_->process_of(data_rank_, stage),
                            std::move(message));
  }

  void want(want_data request) override {
    self_->send(book_->loaders[static_cast<std::size_t>(data_rank_)],
                std::move(request));
  }

  void reduce(reduce_gradients request) override {
    self_->send(book_->reducers[static_cast<std::size_t>(request.stage)],
                std::move(request));
  }

  void squares(stage_squares squares) override {
    self_->send(book_->coordinator, std::move(squares));
  }

  void done(stage_done report) override {
    self_->send(book_->rank(data_rank_, rank_), std::move(report));
  }

 private:
  caf::event_based_actor* self_;
  address_book_pointer book_;
  std::int32_t data_rank_;
  std::int32_t rank_;
};

struct stage_state {
  stage_state(caf::event_based_actor* actor, const stage_setup& setup,
              address_book_pointer addresses, handler_hook before)
    : self(actor),
      book(std::move(addresses)),
      guard{std::move(before)},
      ports(actor, book, setup.data_rank, setup.rank),
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
  stage_runner runner;
};

}  // namespace

caf::behavior stage_actor(caf::event_based_actor* self,
                          const stage_setup& setup,
                          const address_book_pointer& book,
                          const handler_hook& hook) {
  auto state = std::make_shared<stage_state>(self, setup, book, hook);
  return {
    [state](const begin_step& message) { state->handle(message); },
    [state](lane_token& token) { state->handle(std::move(token)); },
    [state](stage_tensors& message) { state->handle(std::move(message)); },
    [state](loaded_data& message) { state->handle(std::move(message)); },
    [state](const gradients_reduced& message) { state->handle(message); },
    [state](const norm_known& message) { state->handle(message); },
  };
}

}  // namespace troupe
