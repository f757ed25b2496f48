#include "troupe/actors/step/reducer_actor.hpp"

#include <optional>

#include "troupe/actors/step/reducer_core.hpp"
#include "troupe/actors/step/shared_reducer_core.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe {

namespace {

struct reducer_state {
  caf::event_based_actor* self;
  std::vector<std::int32_t> owners;
  address_book_pointer book;
  handler_guard guard;
  std::optional<reducer_core> alone = {};  // all replicas live here
  std::optional<shared_reducer_core> shared = {};

  void reduce(reduce_gradients& request) {
    const auto serial = request.serial;
    const auto stage = request.stage;
    if (shared)
      act(shared->on(std::move(request)), serial, stage);
    else if (alone->on(std::move(request)))
      tell(serial, stage);
  }

  void act(shared_reducer_core::answer answer, std::int64_t serial,
           std::int32_t stage) {
    for (auto& [process, part] : answer.send)
      book->links->send(process, std::move(part));
    if (answer.done)
      tell(serial, stage);
  }

  void tell(std::int64_t serial, std::int32_t stage) {
    for (std::int32_t d = 0; d < static_cast<std::int32_t>(owners.size()); ++d)
      if (const auto& to = book->stage(d, stage))
        self->send(to, gradients_reduced{serial, stage, now_ns(),
                                         alone ? alone->ready() : nullptr});
  }

  template <class Message, class Work>
  void handle(const Message& message, Work&& work) {
    op_failure where{{}, "reduce", {}};
    where.source.stage = message.stage;
    where.source.data_rank = message.data_rank;
    guard.run(
      self, *book, [&] { return where; }, std::forward<Work>(work));
  }
};

}  // namespace

caf::behavior reducer_actor(caf::event_based_actor* self,
                            const std::vector<std::int32_t>& owners,
                            const address_book_pointer& book,
                            const handler_hook& hook) {
  auto state =
    std::make_shared<reducer_state>(reducer_state{self, owners, book, {hook}});
  const auto here = book->links ? book->links->layout().process : 0;
  if (std::ranges::all_of(owners, [&](auto owner) { return owner == here; }))
    state->alone.emplace(static_cast<std::int32_t>(owners.size()));
  else
    state->shared.emplace(owners, here);
  return {
    [state](reduce_gradients& request) {
      state->handle(request, [&] { state->reduce(request); });
    },
    [state](reduce_part& part) {
      state->handle(part, [&] {
        const auto serial = part.serial;
        const auto stage = part.stage;
        if (!state->shared)
          fail(error_code::mismatch,
               "a part of stage {}'s gradients came from another process, "
               "which has no replica of it",
               stage);
        state->act(state->shared->on(std::move(part)), serial, stage);
      });
    },
  };
}

}  // namespace troupe
