#include "troupe/actors/step/loader_actor.hpp"

#include <optional>

#include "troupe/actors/system/spin_sharing.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe {

namespace {

struct loader_state {
  caf::event_based_actor* self;
  loader_setup setup;
  address_book_pointer book;
  handler_guard guard;
  std::unique_ptr<loader_core> core = {};
  event_source now = {};
  bool prefetching = false;
  std::int64_t last_load_ns = 0;

  void handle(const std::function<void()>& work) {
    guard.run(
      self, *book,
      [this] {
        return op_failure{now, "load", {}};
      },
      work);
  }

  void report_slow(const loader_core::place& position, double seconds) {
    auto source = now;
    source.step += position.steps_ahead;
    source.microbatch = position.microbatch;
    book->publish(slow_load_event{source, seconds});
  }

  void begin(const begin_step& message) {
    const auto& settings = message.step->settings;
    if (settings.part == step_part::update)
      return;  // which needs no data
    now.step = settings.step;
    now.phase = settings.phase;
    now.data_rank = setup.data_rank;
    core->begin(*message.step, message.step->source);
  }

  /// A load that takes long may wait for a disk. The one before tells, as
  /// letting another worker run costs more than most loads.
  template <class Load>
  auto loading(Load&& load) {
    constexpr std::int64_t long_ns = 200'000;
    std::optional<waiting_elsewhere> section;
    if (last_load_ns > long_ns)
      section.emplace(self->system());
    const auto begin = now_ns();
    auto loaded = load();
    last_load_ns = now_ns() - begin;
    return loaded;
  }

  void serve(const want_data& request) {
    now.microbatch = request.microbatch;
    self->send(book->stage(setup.data_rank, request.reader),
               loading([&] { return core->on(request); }));
    if (!std::exchange(prefetching, true))
      self->send(self, prefetch_data{});
  }

  /// A failed prefetch is retried, and reported, when the microbatch is wanted.
  void prefetch() {
    try {
      prefetching = loading([&] { return core->prefetch(); });
    } catch (...) {
      prefetching = false;
    }
    if (prefetching)
      self->send(self, prefetch_data{});
  }
};

}  // namespace

caf::behavior loader_actor(caf::event_based_actor* self, loader_setup setup,
                           const address_book_pointer& book,
                           const handler_hook& hook) {
  auto state =
    std::make_shared<loader_state>(loader_state{self, setup, book, {hook}});
  state->core = std::make_unique<loader_core>(
    setup, [at = state.get()](const loader_core::place& place, double seconds) {
      at->report_slow(place, seconds);
    });
  return behavior_of<loader_handle>(
    [state](const begin_step& message) {
      state->handle([&] { state->begin(message); });
    },
    [state](const want_data& request) {
      state->handle([&] { state->serve(request); });
    },
    [state](prefetch_data) { state->handle([&] { state->prefetch(); }); });
}

}  // namespace troupe
