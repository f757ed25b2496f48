#include "troupe/actors/reducer_actor.hpp"

#include "troupe/actors/reducer_core.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe {

caf::behavior reducer_actor(caf::event_based_actor* self,
                            std::int32_t data_ranks,
                            const address_book_pointer& book,
                            const handler_hook& hook) {
  auto core = std::make_shared<reducer_core>(data_ranks);
  const auto reduce = [=](reduce_gradients& request) {
    const auto serial = request.serial;
    const auto stage = request.stage;
    if (!core->on(std::move(request)))
      return;
    for (std::int32_t d = 0; d < data_ranks; ++d)
      self->send(book->stage(d, stage), gradients_reduced{serial, now_ns()});
  };
  return {[=](reduce_gradients& request) {
    op_failure where{{}, "reduce", {}};
    where.source.stage = request.stage;
    where.source.data_rank = request.data_rank;
    guarded(
      self, *book, hook, [&] { return where; }, [&] { reduce(request); });
  }};
}

}  // namespace troupe
