#include "troupe/actors/event_hub.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <map>

namespace troupe {

namespace {

using backlog = std::shared_ptr<std::atomic<std::int64_t>>;

struct monitor_state {
  monitor what;
  backlog waiting;
  std::string trouble = {};  // why it was detached

  void see(const event& event) {
    --*waiting;
    if (!trouble.empty())
      return;
    try {
      what.see(event);
    } catch (const std::exception& reason) {
      trouble = reason.what();
      spdlog::warn("monitor {} was detached: {}", what.name, trouble);
    }
  }

  /// What went wrong while finishing; empty if nothing did.
  std::string finish() {
    try {
      if (what.finish && trouble.empty())
        what.finish();
    } catch (const std::exception& reason) {
      trouble = reason.what();
    }
    return trouble;
  }
};

caf::behavior monitor_actor(caf::event_based_actor* self, monitor what,
                            const backlog& waiting) {
  auto state =
    std::make_shared<monitor_state>(monitor_state{std::move(what), waiting});
  return {
    [state](const publish_event& message) { state->see(*message.what); },
    [state, self](finish_monitor) {
      auto trouble = state->finish();
      self->quit();
      return trouble;
    },
  };
}

struct hub_state {
  struct entry {
    std::string name;
    subscription wants;
    caf::actor actor;
    backlog waiting;
    std::int64_t dropped = 0;
  };

  caf::event_based_actor* self;
  std::shared_ptr<event_board> board;
  std::map<std::int64_t, entry> monitors;

  void tell_board() const {
    std::vector<subscription> all;
    for (const auto& [id, monitor] : monitors)
      all.push_back(monitor.wants);
    board->set(std::move(all));
  }

  void attach(attach_monitor& request) {
    auto waiting = std::make_shared<std::atomic<std::int64_t>>(0);
    entry added{request.what.name, request.what.wants, {}, waiting};
    added.actor = self->spawn(monitor_actor, std::move(request.what), waiting);
    monitors.emplace(request.id, std::move(added));
    tell_board();
  }

  void publish(const publish_event& message) {
    for (auto& [id, monitor] : monitors) {
      if (!monitor.wants.covers(*message.what))
        continue;
      if (*monitor.waiting >= backlog_limit) {
        ++monitor.dropped;
        continue;
      }
      ++*monitor.waiting;
      self->send(monitor.actor, message);
    }
  }

  caf::actor remove(std::int64_t id) {
    auto node = monitors.extract(id);
    if (node.empty())
      return {};
    const auto& monitor = node.mapped();
    if (monitor.dropped > 0)
      spdlog::warn("monitor {} was too slow: {} events were dropped",
                   monitor.name, monitor.dropped);
    tell_board();
    return monitor.actor;
  }
};

}  // namespace

caf::behavior event_hub_actor(caf::event_based_actor* self,
                              std::shared_ptr<event_board> board) {
  auto state =
    std::make_shared<hub_state>(hub_state{self, std::move(board), {}});
  return {
    [state](attach_monitor& request) {
      state->attach(request);
      return true;
    },
    [state, self](const detach_monitor& request) {
      auto promise = self->make_response_promise();
      const auto monitor = state->remove(request.id);
      if (!monitor)
        promise.deliver(std::string{});
      else
        promise.delegate(monitor, finish_monitor{});
      return promise;
    },
    [state](const publish_event& message) { state->publish(message); },
  };
}

}  // namespace troupe
