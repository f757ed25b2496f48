#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/base/names.hpp"
#include "troupe/monitors/http/http_exchange.hpp"
#include "troupe/monitors/live/attach_folder.hpp"
#include "troupe/monitors/live/client_monitor.hpp"
#include "troupe/monitors/live/job_operations.hpp"

namespace troupe {

/// The monitors that clients attached to a job. Answers requests of
/// docs/endpoint.md; one thread at a time. There are at most 64, of which the
/// last 16 are for clients that may control the job. What monitors cause to be
/// logged is limited: 32 lines, and one more every 10 s. All that answers
/// throws in place of an answer, see `response_to_error`.
class attached_monitors {
 public:
  /// `folder`: for the monitors' files; empty: none. `left` is called, by any
  /// thread, when the client of a monitor has left. Throws as `attach_folder`
  /// does.
  attached_monitors(job_operations operations, const std::string& folder,
                    std::function<void(std::int64_t id)> left);

  /// Attaches the monitor that the body describes, and answers.
  void attach(const http_exchange_pointer& by);
  /// Answers with the events that the body, or the query, subscribes to.
  void stream_events(const http_exchange_pointer& by);
  http_response health() const;
  http_response plan() const;
  http_response list() const;
  http_response ranks() const;
  /// Lets other processes host ranks from the next step on.
  http_response rehost(const http_request& request) const;
  /// Returns a function that makes the answer. Any thread may call it, and it
  /// may wait, as the monitor may be slow to end.
  std::function<http_response()> detach(const http_request& request);
  /// Returns a function that makes the answer, as `detach`; it searches for an
  /// order, which takes long.
  std::function<http_response()> replan(const http_request& request) const;

  /// These forget monitors, and return what detaches them: for any thread;
  /// empty where there are none.
  std::function<void()> client_left(std::int64_t id);
  std::function<void()> forget_ended();
  std::function<void()> detach_all();

 private:
  struct entry {
    std::int64_t attached_as = 0;
    std::string spec;
    bool keep = false;
    ended_flag ended = std::make_shared<std::atomic<bool>>(false);
  };

  /// Attaches what `make` makes, and returns its id.
  std::int64_t add(const http_request& request, entry added,
                   const monitor_client& to,
                   const std::function<monitor(std::int64_t id)>& make);
  void stream(const http_exchange_pointer& to, std::int64_t id,
              const nlohmann::json& first) const;
  /// A new folder's name in the folder.
  std::string folder_for(const http_request& request, std::int64_t id,
                         const std::string& spec) const;
  void require_room(access_right right) const;
  std::function<void()> take_where(
    const std::function<bool(const std::pair<const std::int64_t, entry>&)>&
      which);

  /// Tells clients whether the same process answers: processes of several
  /// machines may have the same pid.
  const std::string server_ = random_digits(2);
  const std::shared_ptr<const job_operations> operations_;
  const std::shared_ptr<const attach_folder> folder_;  // null: none
  const std::function<void(std::int64_t)> left_;
  const std::shared_ptr<limited_log> log_ = std::make_shared<limited_log>();
  /// Asked for, and not answered yet.
  const std::shared_ptr<std::atomic<int>> replans_ =
    std::make_shared<std::atomic<int>>(0);
  std::map<std::int64_t, entry> entries_;
  std::int64_t next_ = 0;
};

/// A subscription as the query of a GET writes it, `ops=true&every=10`: an
/// object of values of the subscription's types. Throws `refused_request`.
nlohmann::json subscription_in_query(const std::string& query);

}  // namespace troupe
