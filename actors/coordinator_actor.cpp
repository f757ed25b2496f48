#include "troupe/actors/coordinator_actor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

namespace troupe {

namespace {

const char* name_of(phase phase) {
  switch (phase) {
    case phase::training:
      return "step";
    case phase::validation:
      return "validation at step";
    case phase::inference:
      break;
  }
  return "inference at step";
}

/// "step 3: rank 1, 1F2 (stage 1, microbatch 2): reason".
std::string sentence(const op_failure& failure) {
  const auto& at = failure.source;
  auto text = fmt::format("{} {}", name_of(at.phase), at.step);
  if (at.rank >= 0)
    text += fmt::format(", rank {}", at.rank);
  if (!failure.op.empty())
    text += fmt::format(", op {}", failure.op);
  std::vector<std::string> parts;
  if (at.stage >= 0)
    parts.push_back(fmt::format("stage {}", at.stage));
  if (at.microbatch >= 0)
    parts.push_back(fmt::format("microbatch {}", at.microbatch));
  parts.push_back(fmt::format("replica {}", at.data_rank));
  return fmt::format("{} ({}): {}", text, fmt::join(parts, ", "),
                     failure.reason);
}

struct coordinator_state {
  caf::event_based_actor* self;
  supervision watch;
  address_book_pointer book;
  handler_hook hook;
  coordinator_core core;
  caf::response_promise asked = {};
  std::string failed = {};  // why the run can't go on
  bool interrupted = false;
  std::int64_t last_step = 0;
  std::vector<progress_board::entry> seen = {};

  void begin(const run_step& request) {
    asked = self->make_response_promise();
    if (!failed.empty()) {
      asked.deliver(core.abandon(failed, interrupted));
      return;
    }
    core.begin(request.step);
    last_step = request.step->settings.step;
    seen.clear();
    for (const auto& loader : book->loaders)
      self->send(loader, begin_step{request.step});
    for (const auto& device : book->device_actors)
      self->send(device, begin_step{request.step});
    schedule_tick();
  }

  void schedule_tick() {
    if (watch.stall_seconds > 0)
      self->delayed_send(self,
                         std::chrono::milliseconds(static_cast<std::int64_t>(
                           watch.stall_seconds * 1000)),
                         watchdog_tick{core.step()->serial});
  }

  void tick(const watchdog_tick& tick) {
    if (!core.running() || core.step()->serial != tick.serial)
      return;
    auto now = watch.progress->snapshot();
    if (now == seen)
      spdlog::warn(
        "step {}: no op ended in the last {} s: {}", core.step()->settings.step,
        watch.stall_seconds,
        fmt::join(watch.progress->describe(*core.step()->plan), "; "));
    seen = std::move(now);
    schedule_tick();
  }

  void on(stage_squares& message) {
    if (!current(message.serial))
      return;
    const auto known = core.on(std::move(message));
    if (known)
      for (const auto& stage : book->stage_actors)
        self->send(stage, *known);
  }

  void on(rank_done& report) {
    if (!current(report.serial))
      return;
    if (watch.events->wants_ops() && core.step()->settings.training())
      publish(to_event(source(), report));
    auto outcome = core.on(std::move(report));
    if (!outcome)
      return;
    // Parts of an evaluation are told as one, by whoever asked for it.
    if (outcome->event.source.phase == phase::training) {
      outcome->event.monitor_seconds =
        static_cast<double>(watch.events->take_spent()) * 1e-9;
      publish(outcome->event);
    }
    asked.deliver(std::move(*outcome));
  }

  event_source source() const {
    event_source source;
    source.step = core.step()->settings.step;
    source.phase = core.step()->settings.phase;
    source.epoch = core.step()->settings.epoch;
    return source;
  }

  bool current(std::int64_t serial) const {
    return core.running() && core.step()->serial == serial;
  }

  void publish(event what) {
    self->send(book->hub,
               publish_event{std::make_shared<const event>(std::move(what))});
  }

  /// The first failure is the root: an actor that fails sends nothing on, so
  /// that the others can only wait.
  void fail_with(const op_failure& failure) {
    if (!failed.empty())
      return;
    failed = sentence(failure);
    publish(failure_event{failure.source, failure.op, failure.reason});
    if (core.running())
      asked.deliver(core.abandon(failed, false));
  }

  void stop(const stop_run& request) {
    if (!failed.empty())
      return;
    failed = request.reason;
    if (core.running())
      asked.deliver(core.abandon(failed, false));
  }

  void interrupt(const interrupt_run& request) {
    if (!failed.empty())
      return;
    interrupted = true;
    failed = request.reason;
    if (!core.running()) {
      failed += fmt::format(" after step {}", last_step);
      return;
    }
    const auto& step = *core.step();
    failed +=
      fmt::format(" at step {}: {}", step.settings.step,
                  fmt::join(watch.progress->describe(*step.plan), "; "));
    asked.deliver(core.abandon(failed, true));
  }

  void handle(const std::function<void()>& work) {
    try {
      if (hook)
        hook();
      work();
    } catch (const std::exception& reason) {
      fail_with({{}, {}, reason.what()});
    }
  }
};

}  // namespace

caf::behavior coordinator_actor(caf::event_based_actor* self,
                                const coordinator_setup& setup,
                                const supervision& watch,
                                const address_book_pointer& book,
                                const handler_hook& hook) {
  auto state = std::make_shared<coordinator_state>(
    coordinator_state{self, watch, book, hook, coordinator_core{setup}});
  return {
    [state](const run_step& request) {
      state->handle([&] { state->begin(request); });
      return state->asked;
    },
    [state](stage_squares& message) {
      state->handle([&] { state->on(message); });
    },
    [state](rank_done& report) { state->handle([&] { state->on(report); }); },
    [state](const op_failure& failure) {
      state->handle([&] { state->fail_with(failure); });
    },
    [state](const stop_run& request) {
      state->handle([&] { state->stop(request); });
    },
    [state](const interrupt_run& request) {
      state->handle([&] { state->interrupt(request); });
    },
    [state](const watchdog_tick& tick) {
      state->handle([&] { state->tick(tick); });
    },
  };
}

}  // namespace troupe
