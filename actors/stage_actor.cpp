#include "troupe/actors/stage_actor.hpp"

#include "troupe/actors/spin_sharing.hpp"

namespace troupe {

namespace {

class actor_ports final : public stage_ports {
 public:
  actor_ports(caf::event_based_actor* self, address_book_pointer book)
    : self_(self), book_(std::move(book)) {}

  void reduce(reduce_gradients request) override {
    self_->send(book_->reducers[static_cast<std::size_t>(request.stage)],
                std::move(request));
  }
  void squares(stage_squares squares) override {
    self_->send(book_->coordinator, std::move(squares));
  }

 private:
  caf::event_based_actor* self_;
  address_book_pointer book_;
};

struct stage_state {
  stage_state(caf::event_based_actor* actor, const stage_setup& setup,
              address_book_pointer addresses, handler_hook before)
    : self(actor),
      book(std::move(addresses)),
      data_rank(setup.data_rank),
      rank(setup.rank),
      guard{std::move(before)},
      ports(actor, book),
      runner(setup, ports) {}

  template <class Work>
  void handle(Work&& work) {
    guard.run(
      self, *book,
      [this] {
        return op_failure{runner.source(), runner.current_op(), {}};
      },
      std::forward<Work>(work));
  }

  /// To the rank, which is idle until then.
  template <class Message>
  void answer(Message message) {
    const running_next soon;
    self->send(book->rank(data_rank, rank), std::move(message));
  }

  caf::event_based_actor* self;
  address_book_pointer book;
  std::int32_t data_rank, rank;
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
    [state](run_op& request) {
      state->handle(
        [&] { state->answer(state->runner.on(std::move(request))); });
    },
    [state](const begin_step& message) {
      state->handle([&] { state->runner.on(message); });
    },
    [state](const end_step& message) {
      state->handle([&] { state->answer(state->runner.on(message)); });
    },
  };
}

}  // namespace troupe
