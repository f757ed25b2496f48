#include "troupe/actors/monitoring/event_hub.hpp"

#include <utility>

#include "troupe/actors/system/handles.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/shard_joiner.hpp"

namespace troupe {

namespace {

struct hub_state {
  std::shared_ptr<event_board> board;
  std::map<std::int64_t, hub_monitor> monitors;
  seen_steps repeated;  // of the hub before
  shard_joiner joiner = {};
  seen_steps seen = repeated;

  std::int64_t tell_board() const {
    std::vector<subscription> all;
    for (const auto& [id, monitor] : monitors)
      if (!monitor.gone && !monitor.leaves)
        all.push_back(monitor.what->wants());
    return board->set(std::move(all));
  }

  void attach(const attach_monitor& request) {
    auto& added =
      monitors.emplace(request.id, hub_monitor{request.what}).first->second;
    added.since = tell_board();
  }

  static std::string push(monitor_thread& target, const event_pointer& what) {
    try {
      return target.push(what);
    } catch (...) {
      return thrown_text();
    }
  }

  /// The event as monitors see it; null: parts of it are yet to come.
  event_pointer whole(const event_pointer& what) {
    const auto* part = std::get_if<tensors_event>(what.get());
    if (!part || part->shards == 1)
      return what;
    auto joined = joiner.add(*part);
    return joined && !joined->tensors.empty()
             ? std::make_shared<const event>(*std::move(joined))
             : nullptr;
  }

  /// Notes the outcome of a step. Returns whether the event was seen before,
  /// until the run is beyond what it repeats.
  bool is_repeated(const event& what) {
    const auto& source = source_of(what);
    if (std::holds_alternative<epoch_event>(what)
        || source.phase == phase::inference)
      return false;
    const auto of = source.phase == phase::training ? &seen_steps::training
                                                    : &seen_steps::validation;
    if (source.step <= repeated.*of)
      return true;
    if (std::holds_alternative<step_event>(what)) {
      repeated.*of = 0;
      seen.*of = source.step;
    }
    return false;
  }

  void publish(const event_pointer& what) {
    if (!what || is_repeated(*what))
      return;
    const auto epoch = source_of(*what).epoch;
    for (auto& [id, monitor] : monitors)
      if (!monitor.gone
          && (epoch < 0 || (epoch >= monitor.since && epoch < monitor.until)))
        hand(monitor, what);
  }

  void hand(hub_monitor& monitor, const event_pointer& what) {
    const auto trouble = push(*monitor.what, what);
    if (trouble.empty())
      return;
    if (!monitor.what->stopped())  // else the run's error tells
      monitor.what->warn_that_it_ends(trouble);
    monitor.gone = true;
    tell_board();
  }

  detached_monitor detach(const detach_monitor& request) {
    if (request.after_step) {
      if (const auto place = monitors.find(request.id);
          place != monitors.end()) {
        place->second.leaves = true;
        place->second.until = tell_board();
      }
      return {};
    }
    auto node = monitors.extract(request.id);
    tell_board();
    return {node.empty() ? nullptr : std::move(node.mapped().what)};
  }
};

}  // namespace

behavior_for<event_hub_handle> event_hub_actor(
  caf::event_based_actor*, std::shared_ptr<event_board> board,
  hub_monitors so_far) {
  auto state = std::make_shared<hub_state>(
    hub_state{std::move(board), std::move(so_far.by_id), so_far.seen});
  return {
    [state](const attach_monitor& request) {
      state->attach(request);
      return true;
    },
    [state](const detach_monitor& request) { return state->detach(request); },
    [state](const hand_over_monitors&) {
      return hub_monitors{std::exchange(state->monitors, {}), state->seen};
    },
    [state](const publish_event& message) {
      state->publish(state->whole(message.what));
    }};
}

}  // namespace troupe
