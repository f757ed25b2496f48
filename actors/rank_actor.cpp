#include "troupe/actors/rank_actor.hpp"

#include "troupe/actors/rank_core.hpp"

namespace troupe {

namespace {

struct rank_state {
  caf::event_based_actor* self;
  std::int32_t data_rank;
  std::int32_t rank;
  address_book_pointer book;
  handler_guard guard;
  rank_core core;

  void handle(const std::function<void()>& work) {
    guard.run(
      self, *book,
      [this] {
        op_failure failure;
        failure.source.data_rank = data_rank;
        failure.source.rank = rank;
        return failure;
      },
      work);
  }

  void begin(const begin_step& message) {
    for (const auto stage : core.begin(message.step))
      self->send(book->stage(data_rank, stage), message);
    auto [stage, token] = core.first_token();
    self->send(book->stage(data_rank, stage), std::move(token));
  }

  void report(std::optional<rank_done> done) {
    if (done)
      self->send(book->coordinator, std::move(*done));
  }
};

}  // namespace

caf::behavior rank_actor(caf::event_based_actor* self, std::int32_t data_rank,
                         std::int32_t rank, const address_book_pointer& book,
                         const handler_hook& hook) {
  auto state = std::make_shared<rank_state>(rank_state{
    self, data_rank, rank, book, {hook}, rank_core{data_rank, rank}});
  return {
    [state](const begin_step& message) {
      state->handle([&] { state->begin(message); });
    },
    [state](const lane_token& token) {
      state->handle([&] { state->report(state->core.on(token)); });
    },
    [state](stage_done& report) {
      state->handle([&] { state->report(state->core.on(std::move(report))); });
    },
  };
}

}  // namespace troupe
