#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/transport/trust/access.hpp"
#include "troupe/monitors/live/attach_folder.hpp"
#include "troupe/monitors/live/told_monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// A monitor that a client wants.
struct wanted_monitor {
  std::string spec;  // such as `gap:interval=10`
  sink_pointer sink;
  std::function<void(const std::string&)> print;
  access_right right = access_right::watch;  // the client's
  /// A new folder for its files. Throws `invalid_argument` where the client may
  /// only watch, or the job has no folder for such files.
  std::function<std::string()> folder;
};

/// The operations that clients may do on a live job. Called by threads that are
/// none of the job's own: `detach` by any, the others by one at a time. They
/// may throw, and `detach` may wait.
struct job_operations {
  std::function<std::int64_t(monitor)> attach;
  std::function<void(std::int64_t)> detach;
  std::function<monitor(const wanted_monitor&)> make;
  /// Anything that describes the job: an object.
  std::function<nlohmann::json()> info;
  /// The plan's text form; may be empty.
  std::function<std::string()> plan = {};
  /// Another order of the job's ops: a request's fields to its answer's; may be
  /// empty. By several threads at once.
  std::function<nlohmann::json(const nlohmann::json&)> replan = {};
};

/// How a request is answered. Both functions may be empty, are for any thread,
/// and may wait, as a monitor that is detached may be slow to end.
struct request_reply {
  nlohmann::json answer;
  /// Makes the answer, in place of `answer`. Never throws.
  std::function<nlohmann::json()> slow;
  /// `slow` searches for an order: that takes long, one after the other.
  bool searches = false;
  /// Detaches monitors that have ended: no answer waits for that.
  std::function<void()> tidy;
};

/// Who asks, and where the answers' streams go.
struct requesting_client {
  std::int64_t id = 0;
  access_right right = access_right::watch;
  outbox_pointer outbox;
};

/// The monitors attached over an endpoint, by client. Answers requests; one
/// thread at a time. A client attaches at most 16 monitors, all of them 64; one
/// that may only watch 4, and all of these 48.
/// What monitors cause to be logged is limited: 32 lines, and one more in each
/// 10 s.
class attached_monitors {
 public:
  /// `folder`: for the monitors' files; empty: none. Throws as `attach_folder`
  /// does.
  attached_monitors(job_operations operations, const std::string& folder);

  /// `{"do": "attach", "spec", "keep"}` -> `{"id"}`, and `"folder"` where it
  /// writes files; `{"do": "detach", "id"}`,
  /// `{"do": "list"}` -> `{"monitors": [...]}`, `{"do": "events",
  /// "subscription"}` -> `{"id"}`, `{"do": "info"}`, `{"do": "plan"}` ->
  /// `{"plan"}`, `{"do": "replan", ...}` -> what the job answers;
  /// `{"error", "usage"}` where that fails.
  request_reply answer(const requesting_client& who,
                       const nlohmann::json& request);
  /// Forgets what the client attached, but for what is to be kept. What it
  /// returns detaches that: for any thread; empty where there is nothing to do.
  std::function<void()> client_left(std::int64_t client);
  std::function<void()> detach_all();

 private:
  struct entry {
    std::int64_t client = 0;
    std::int64_t attached_as = 0;
    std::string spec;
    bool keep = false;
    ended_flag ended{};
  };

  nlohmann::json attach(const requesting_client& who,
                        const nlohmann::json& request);
  nlohmann::json watch(const requesting_client& who,
                       const nlohmann::json& request);
  /// Attaches what `make` makes, and answers with its id.
  nlohmann::json add(const requesting_client& who, entry added,
                     const std::function<monitor(const monitor_client&)>& make);
  /// A new folder's name in the folder.
  std::string folder_for(const requesting_client& who, std::int64_t id,
                         const std::string& spec) const;
  nlohmann::json plan() const;
  nlohmann::json list(std::int64_t client) const;
  void require_room(const requesting_client& who) const;
  request_reply detach(const requesting_client& who,
                       const nlohmann::json& request);
  request_reply replan(const requesting_client& who,
                       const nlohmann::json& request) const;
  /// Removes such entries; what it returns detaches the monitors: empty where
  /// there are none.
  std::function<void()> take_where(
    const std::function<bool(const entry&)>& which);

  const std::shared_ptr<const job_operations> operations_;
  const std::shared_ptr<const attach_folder> folder_;  // null: none
  const std::shared_ptr<limited_log> log_;
  const std::shared_ptr<std::atomic<int>> replans_;  // asked for, not answered
  std::map<std::int64_t, entry> entries_;
  std::int64_t next_ = 0;
};

}  // namespace troupe
