#include "troupe/actors/reduction/reducer_actor.hpp"

#include <utility>

#include "troupe/actors/reduction/link_collectives.hpp"
#include "troupe/actors/reduction/reducer_core.hpp"
#include "troupe/engine/stage/sharding/ties.hpp"

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

std::int32_t own_process(const address_book_pointer& book) {
  return book->links ? book->links->layout().process : 0;
}

auto sender_of(const address_book_pointer& book) {
  return [book](std::int32_t receiver, collective_part part) {
    book->links->send(receiver, std::move(part));
  };
}

reducer_core make_core(const stage_group& group,
                       const address_book_pointer& book) {
  const auto process = own_process(book);
  const auto here =
    static_cast<std::size_t>(std::ranges::count(group.owners, process));
  if (here == group.owners.size())
    return {make_local_collectives(group.mean), here};
  return {std::make_unique<link_collectives>(group.owners, group.mean, process,
                                             sender_of(book)),
          here};
}

reducer_core make_core(const tied_group& group,
                       const address_book_pointer& book) {
  const auto process = own_process(book);
  const auto members = joined(group.stages);
  const auto here = static_cast<std::size_t>(
    std::ranges::count_if(members, [&](std::int32_t stage) {
      return group.owners.at(static_cast<std::size_t>(stage)) == process;
    }));
  if (here == members.size())
    return {make_local_collectives(1), here};
  return {std::make_unique<tied_links>(group, process, sender_of(book)), here};
}

caf::behavior behavior_with(caf::event_based_actor* self,
                            const address_book_pointer& book,
                            const handler_hook& hook, reducer_core core) {
  auto state = std::make_shared<reducer_state>(
    reducer_state{self, book, {hook}, std::move(core)});
  return behavior_of<reducer_handle>(
    [state](collective_request& request) {
      state->handle(request.owner.stage, request);
    },
    [state](collective_part& part) { state->handle(part.stage, part); });
}

}  // namespace

caf::behavior reducer_actor(caf::event_based_actor* self,
                            const stage_group& group,
                            const address_book_pointer& book,
                            const handler_hook& hook) {
  return behavior_with(self, book, hook, make_core(group, book));
}

caf::behavior tied_reducer_actor(caf::event_based_actor* self,
                                 const tied_group& group,
                                 const address_book_pointer& book,
                                 const handler_hook& hook) {
  return behavior_with(self, book, hook, make_core(group, book));
}

}  // namespace troupe
