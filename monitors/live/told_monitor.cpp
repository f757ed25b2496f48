#include "troupe/monitors/live/told_monitor.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/event_parts.hpp"
#include "troupe/monitors/live/json_fields.hpp"

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
  stream_state(std::int64_t id, outbox_pointer to)
    : id_(id), to_(std::move(to)) {}

  void see(const event& what) {
    if (!to_->is_open())
      return;
    const auto& at = source_of(what);
    if (at.step != missed_in_.step || at.phase != missed_in_.phase)
      tell_missed();
    if (missed_ == 0 && offer(what))
      return;
    ++missed_;
    missed_in_ = at;
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
      return to_->offer(event_frames(id_, what));
    } catch (const error&) {
      return false;  // longer than any frame
    }
  }

  std::int64_t id_;
  outbox_pointer to_;
  std::int64_t missed_ = 0;
  event_source missed_in_;
};

/// Hands a client what a monitor found. Of what finds no room, as it is too
/// much or too fast, the client is told as soon as that fits.
class findings {
 public:
  findings(std::int64_t id, outbox_pointer to) : id_(id), to_(std::move(to)) {}

  void offer(const std::vector<std::string>& frames) {
    tell_missed();
    if (missed_ == 0 && to_->offer(frames))
      return;
    ++missed_;
    tell_missed();
  }

 private:
  void tell_missed() {
    if (missed_ == 0)
      return;
    const auto text = fmt::format(
      "here {} findings are missing, as there was no room for them\n", missed_);
    if (to_->offer({frame_of(live_type::printed, id_, {{"text", text}})}))
      missed_ = 0;
  }

  std::int64_t id_;
  outbox_pointer to_;
  std::int64_t missed_ = 0;
};

template <class Item>
std::vector<Item> slice_of(const std::vector<Item>& all, std::size_t part,
                           std::size_t size) {
  const auto from = std::min(part * size, all.size());
  const auto to = std::min(from + size, all.size());
  return {all.begin() + static_cast<std::ptrdiff_t>(from),
          all.begin() + static_cast<std::ptrdiff_t>(to)};
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

class told final : public sink {
 public:
  told(std::int64_t id, outbox_pointer to, bool keep)
    : id_(id), to_(std::move(to)), keep_(keep), found_(id, to_) {}

  void write(const metrics_record& record) override {
    if (to_->is_open())
      found_.offer(metrics_frames(id_, record));
  }
  void write(const alert& what) override {
    if (keep_ && !to_->is_open())
      spdlog::warn("monitor {}: {}", what.monitor, what.text);
    auto cut = what;
    cut.text = what.text.substr(0, text_of_a_frame);
    found_.offer({frame_of(live_type::alert, id_, json_of(cut))});
  }

 private:
  std::int64_t id_;
  outbox_pointer to_;
  bool keep_;
  findings found_;
};

/// Tells a client once how its monitor ended.
class last_word {
 public:
  last_word(std::int64_t id, outbox_pointer to, ended_flag ended)
    : id_(id), to_(std::move(to)), ended_(std::move(ended)) {}

  void tell(const std::string& reason, bool stops) const {
    if (!ended_->exchange(true))
      to_->put(frame_of(
        live_type::ended, id_,
        {{"reason", reason.substr(0, text_of_a_frame)}, {"stops_run", stops}}));
  }
  /// Runs a part of the monitor; what it throws is told.
  void guard(const std::function<void()>& part) const {
    try {
      part();
    } catch (const stop_training& reason) {
      tell(reason.what(), true);
      throw;
    } catch (const std::exception& reason) {
      tell(reason.what(), false);
      throw;
    }
  }

 private:
  std::int64_t id_;
  outbox_pointer to_;
  ended_flag ended_;
};

}  // namespace

monitor event_stream(std::int64_t id, const subscription& wants,
                     outbox_pointer to) {
  monitor made;
  made.name = "events";
  made.wants = wants;
  made.see = [state = std::make_shared<stream_state>(id, std::move(to))](
               const event& what) { state->see(what); };
  return made;
}

monitor told_monitor(std::int64_t id, monitor what, outbox_pointer to,
                     ended_flag ended) {
  const last_word end(id, std::move(to), std::move(ended));
  auto wrapped = what;
  wrapped.see = [end, see = std::move(what.see)](const event& seen) {
    end.guard([&] { see(seen); });
  };
  wrapped.finish = [end, finish = std::move(what.finish)] {
    if (finish)
      end.guard(finish);
    end.tell({}, false);
  };
  wrapped.given_up = [end](const std::string& reason) {
    end.tell(reason, false);
  };
  return wrapped;
}

sink_pointer told_sink(std::int64_t id, outbox_pointer to, bool keep) {
  return std::make_shared<told>(id, std::move(to), keep);
}

std::function<void(const std::string&)> told_print(std::int64_t id,
                                                   outbox_pointer to,
                                                   bool keep) {
  return [id, to, keep,
          found = std::make_shared<findings>(id, to)](const std::string& text) {
    if (keep && !to->is_open())
      spdlog::info("monitor {} prints:\n{}", id, text);
    std::vector<std::string> frames;
    for (std::size_t from = 0; from < text.size(); from += text_of_a_frame)
      frames.push_back(
        frame_of(live_type::printed, id,
                 {{"text", text.substr(from, text_of_a_frame)}}));
    found->offer(frames);
  };
}

}  // namespace troupe
