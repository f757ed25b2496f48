#include "troupe/monitors/live/told_monitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/frame.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

namespace {

using nlohmann::json;

// Escaped, a byte may become six, and a frame holds a MiB.
constexpr std::size_t text_of_a_frame = std::size_t{128} << 10;
constexpr std::size_t values_of_a_frame = 4096;
constexpr std::size_t histograms_of_a_frame = 128;

std::string frame_of(live_type type, std::int64_t id, json content) {
  content["id"] = id;
  return frame_bytes(type, json_text(content));
}

/// Hands a client events, and remembers how many it missed.
class stream_state {
 public:
  explicit stream_state(monitor_client to) : to_(std::move(to)) {}

  void see(const event& what) {
    if (!to_.outbox->is_open())
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
    try {
      return to_.outbox->offer(event_frames(to_.id, what));
    } catch (const error&) {
      return false;  // longer than any frame
    }
  }

  monitor_client to_;
  std::int64_t missed_ = 0;
  event_source missed_in_;
};

/// Hands a client what a monitor found. Of what finds no room, as it is too
/// much or too fast, the client is told as soon as that fits.
class findings {
 public:
  explicit findings(monitor_client to) : to_(std::move(to)) {}

  void offer(const std::vector<std::string>& frames) {
    tell_missed();
    if (missed_ == 0 && to_.outbox->offer(frames))
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
    if (to_.outbox->offer(
          {frame_of(live_type::printed, to_.id, {{"text", text}})}))
      missed_ = 0;
  }

  monitor_client to_;
  std::int64_t missed_ = 0;
};

template <class Item>
std::vector<Item> slice_of(const std::vector<Item>& all, std::size_t part,
                           std::size_t size) {
  const auto begin = std::min(part * size, all.size());
  const auto end = std::min(begin + size, all.size());
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// Records of their own, each short enough for a frame.
std::vector<std::string> metrics_frames(std::int64_t id,
                                        const metrics_record& record) {
  const auto parts = std::max(record.values.size() / values_of_a_frame,
                              record.histograms.size() / histograms_of_a_frame)
                     + 1;
  std::vector<std::string> frames;
  for (std::size_t i = 0; i < parts; ++i)
    frames.push_back(
      frame_of(live_type::metrics, id,
               json_of(metrics_record{
                 record.source, slice_of(record.values, i, values_of_a_frame),
                 slice_of(record.histograms, i, histograms_of_a_frame)})));
  return frames;
}

/// Tells a client once how its monitor ended.
struct last_word {
  monitor_client to;
  ended_flag ended;
  bool may_stop;

  void tell(const std::string& reason, bool stops) const {
    if (!ended->exchange(true))
      to.outbox->put(frame_of(
        live_type::ended, to.id,
        {{"reason", reason.substr(0, text_of_a_frame)}, {"stops_run", stops}}));
  }
  /// For a client that may not stop the run.
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
    } catch (const std::exception& reason) {
      tell(reason.what(), false);
      throw;
    }
  }
};

}  // namespace

monitor event_stream(const monitor_client& to, const subscription& wants) {
  auto made = monitor_of("events", std::make_shared<stream_state>(to));
  made.wants = wants;
  return made;
}

monitor told_monitor(const monitor_client& to, monitor what, ended_flag ended,
                     bool may_stop) {
  const last_word end{to, std::move(ended), may_stop};
  auto wrapped = what;
  wrapped.warn = [to](const std::string& text) {
    to.log->warn(text);
    to.outbox->offer({frame_of(
      live_type::printed, to.id,
      {{"text", text.substr(0, text_of_a_frame)}, {"warning", true}})});
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

sink_pointer told_sink(const monitor_client& to, bool keep) {
  const auto found = std::make_shared<findings>(to);
  return callback_sink(
    [to, found](const metrics_record& record) {
      if (to.outbox->is_open())
        found->offer(metrics_frames(to.id, record));
    },
    [to, keep, found](alert what) {
      if (keep && !to.outbox->is_open())
        to.log->warn(fmt::format("monitor {}: {}", what.monitor, what.text));
      what.text = what.text.substr(0, text_of_a_frame);
      found->offer({frame_of(live_type::alert, to.id, json_of(what))});
    });
}

std::function<void(const std::string&)> told_print(const monitor_client& to,
                                                   bool keep) {
  return [to, keep,
          found = std::make_shared<findings>(to)](const std::string& text) {
    if (keep && !to.outbox->is_open())
      to.log->info(fmt::format("monitor {} prints:\n{}", to.id, text));
    std::vector<std::string> frames;
    for (std::size_t start = 0; start < text.size(); start += text_of_a_frame)
      frames.push_back(
        frame_of(live_type::printed, to.id,
                 {{"text", text.substr(start, text_of_a_frame)}}));
    found->offer(frames);
  };
}

}  // namespace troupe
