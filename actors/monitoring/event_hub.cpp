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
  shard_joiner joiner = {};

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

  void publish(const event_pointer& what) {
    if (!what)
      return;
    bool changed = false;
    for (auto& [id, monitor] : monitors) {
      const auto epoch = source_of(*what).epoch;
      if (monitor.gone
          || (epoch >= 0 && (epoch < monitor.since || epoch >= monitor.until)))
        continue;
      const auto trouble = push(*monitor.what, what);
      if (trouble.empty())
        continue;
      if (!monitor.what->stopped())  // else the run's error tells
        monitor.what->warn_that_it_ends(trouble);
      monitor.gone = changed = true;
    }
    if (changed)
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
    hub_state{std::move(board), std::move(so_far.by_id)});
  return {
    [state](const attach_monitor& request) {
      state->attach(request);
      return true;
    },
    [state](const detach_monitor& request) { return state->detach(request); },
    [state](const hand_over_monitors&) {
      return hub_monitors{std::exchange(state->monitors, {})};
    },
    [state](const publish_event& message) {
      state->publish(state->whole(message.what));
    }};
}

}  // namespace troupe
