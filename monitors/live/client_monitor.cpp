#include "troupe/monitors/live/client_monitor.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/engine/device/thrown.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

namespace {

using nlohmann::json;

/// The longest reason that is sent, as it is never dropped.
constexpr std::size_t longest_reason = std::size_t{128} << 10;

std::string line_of(const char* type, json content) {
  content["type"] = type;
  return json_text(content);
}

/// Hands a client events, and remembers how many it missed.
class stream_state {
 public:
  explicit stream_state(http_exchange_pointer to) : to_(std::move(to)) {}

  void see(const event& what) {
    if (!to_->is_open())
      return;
    const auto& place = source_of(what);
    if (place.step != missed_in_.step || place.phase != missed_in_.phase)
      tell_missed();
    if (missed_ == 0 && offer(what))
      return;
    ++missed_;
    missed_in_ = place;
    if (std::holds_alternative<step_event>(what))
      tell_missed();
  }

 private:
  void tell_missed() {
    if (missed_ > 0 && offer(dropped_event{missed_in_, missed_}))
      missed_ = 0;
  }
  bool offer(const event& what) {
    return to_->offer(line_of("event", json_of(what)));
  }

  http_exchange_pointer to_;
  std::int64_t missed_ = 0;
  event_source missed_in_;
};

/// Hands a client what a monitor found. Of what finds no room, as it is too
/// much or too fast, the client is told as soon as that fits.
class findings {
 public:
  explicit findings(http_exchange_pointer to) : to_(std::move(to)) {}

  void offer(const char* type, json content) {
    if (!to_->is_open())
      return;
    tell_missed();
    if (missed_ == 0 && to_->offer(line_of(type, std::move(content))))
      return;
    ++missed_;
    tell_missed();
  }

 private:
  void tell_missed() {
    if (missed_ == 0)
      return;
    const auto text = fmt::format(
      "{} findings are missing here because the queue was full\n", missed_);
    if (to_->offer(line_of("printed", {{"text", text}})))
      missed_ = 0;
  }

  http_exchange_pointer to_;
  std::int64_t missed_ = 0;
};

/// Tells a client once how its monitor ended.
struct end_report {
  monitor_client to;
  ended_flag ended;
  bool may_stop;

  void tell(const std::string& reason, bool stops) const {
    if (ended->exchange(true) || !to.stream)
      return;
    json last{{"reason", reason.substr(0, longest_reason)},
              {"stops_run", stops}};
    if (to.goes_on && to.goes_on())
      last["goes_on"] = true;
    if (const auto why = to.failure ? to.failure() : ""; !why.empty())
      last["failed"] = why.substr(0, longest_reason);
    to.stream->put(line_of("ended", last));
    to.stream->finish();
  }
  /// Ends the monitor of a client that may not stop the run.
  [[noreturn]] void end_itself(const std::string& reason) const {
    tell(reason, false);
    throw std::runtime_error(reason);
  }
  /// Runs a part of the monitor, and tells the client if it fails.
  void guard(const std::function<void()>& part) const {
    try {
      part();
    } catch (const end_training& reason) {
      if (!may_stop)
        end_itself(reason.what());
      throw;  // the monitor sees the run's end
    } catch (const stop_training& reason) {
      if (!may_stop)
        end_itself(reason.what());
      tell(reason.what(), true);
      throw;
    } catch (...) {
      tell(thrown_text(), false);
      throw;
    }
  }
};

}  // namespace

monitor event_stream(const monitor_client& to, const subscription& wants) {
  auto result = monitor_of("events", std::make_shared<stream_state>(to.stream));
  result.wants = wants;
  return result;
}

monitor client_monitor(const monitor_client& to, monitor what, ended_flag ended,
                       bool may_stop) {
  const end_report end{to, std::move(ended), may_stop};
  auto wrapped = what;
  wrapped.warn = [to](const std::string& text) {
    to.log->warn(text);
    if (to.stream)
      to.stream->offer(line_of("printed", {{"text", text}, {"warning", true}}));
  };
  wrapped.see = [end, see = std::move(what.see)](const event& seen) {
    end.guard([&] { see(seen); });
  };
  wrapped.finish = [end, finish = std::move(what.finish)] {
    try {
      if (finish)
        end.guard(finish);
    } catch (const end_training&) {
      end.tell({}, false);
      throw;
    }
    end.tell({}, false);
  };
  wrapped.given_up = [end](const std::string& reason) {
    end.tell(reason, false);
  };
  return wrapped;
}

sink_pointer client_sink(const monitor_client& to) {
  if (!to.stream)
    return callback_sink({}, [log = to.log](const alert& what) {
      log->warn(fmt::format("monitor {}: {}", what.monitor, what.text));
    });
  const auto results = std::make_shared<findings>(to.stream);
  return callback_sink(
    [results](const metrics_record& record) {
      results->offer("metrics", json_of(record));
    },
    [results](const alert& what) { results->offer("alert", json_of(what)); });
}

std::function<void(const std::string&)> client_print(const monitor_client& to,
                                                     const std::string& name) {
  if (!to.stream)
    return [log = to.log, name](const std::string& text) {
      log->info(fmt::format("monitor {} prints:\n{}", name, text));
    };
  return
    [results = std::make_shared<findings>(to.stream)](const std::string& text) {
      results->offer("printed", {{"text", text}});
    };
}

}  // namespace troupe
