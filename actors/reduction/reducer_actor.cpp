#include "troupe/actors/reduction/reducer_actor.hpp"

#include <utility>

#include "troupe/actors/reduction/link_collectives.hpp"
#include "troupe/actors/reduction/reducer_core.hpp"

namespace troupe {

namespace {

struct reducer_state {
  caf::event_based_actor* self;
  address_book_pointer book;
  handler_guard guard;
  reducer_core core;

  template <class Message>
  void handle(std::int32_t stage, Message& message) {
    op_failure failure{{}, "reduce", {}};
    failure.source.stage = stage;
    guard.run(
      self, *book, [&] { return failure; },
      [&] {
        for (auto& answer : core.on(std::move(message))) {
          const auto& target = book->stage(answer.data_rank, answer.owner);
          self->send(target, std::move(answer));
        }
      });
  }
};

reducer_core make_core(const std::vector<std::int32_t>& owners,
                       gradient_mean mean, const address_book_pointer& book) {
  const auto process = book->links ? book->links->layout().process : 0;
  const auto here =
    static_cast<std::size_t>(std::ranges::count(owners, process));
  if (here == owners.size())
    return {make_local_collectives(mean), here};
  const auto send = [book](std::int32_t receiver, collective_part part) {
    book->links->send(receiver, std::move(part));
  };
  return {std::make_unique<link_collectives>(owners, mean, process, send),
          here};
}

}  // namespace

caf::behavior reducer_actor(caf::event_based_actor* self,
                            const std::vector<std::int32_t>& owners,
                            gradient_mean mean,
                            const address_book_pointer& book,
                            const handler_hook& hook) {
  auto state = std::make_shared<reducer_state>(
    reducer_state{self, book, {hook}, make_core(owners, mean, book)});
  return behavior_of<reducer_handle>(
    [state](collective_request& request) {
      state->handle(request.owner.stage, request);
    },
    [state](collective_part& part) { state->handle(part.stage, part); });
}

}  // namespace troupe
