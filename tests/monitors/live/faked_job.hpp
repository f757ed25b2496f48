#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "../../temporary_folder.hpp"
#include "../http/http_client.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/monitors/live/job_server.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe::testing {

/// Polls until the condition holds, for at most ten seconds; returns whether it
/// does.
inline bool becomes(const std::function<bool()>& so) {
  for (int i = 0; i < 10'000; ++i) {
    if (so())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// The operations of a job without a run: it keeps attached monitors, and the
/// test feeds it events.
class faked_job {
 public:
  job_operations operations() {
    job_operations result;
    result.attach = [this](monitor what) { return add(std::move(what)); };
    result.detach = [this](std::int64_t id) { remove(id); };
    result.make = make;
    result.info = [this] {
      ++info_requests;
      return nlohmann::json{{"schedule", "faked"}};
    };
    return result;
  }

  void give_up(const std::string& reason) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, each] : attached_)
      each.given_up(reason);
  }
  void feed(const event& what) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, each] : attached_)
      if (each.wants.covers(what))
        each.see(what);
  }
  std::atomic<int> info_requests = 0;  // requests of /info

  std::size_t attached() const {
    const std::scoped_lock lock(mutex_);
    return attached_.size();
  }
  /// The attached monitors that may have a step run again.
  std::ptrdiff_t watching() const {
    const std::scoped_lock lock(mutex_);
    return std::ranges::count_if(
      attached_, [](const auto& each) { return each.second.wants.watches; });
  }

  /// Monitors of the spec `echo` report each step in all possible ways.
  static monitor make(const wanted_monitor& request) {
    if (request.spec != "echo")
      fail(error_code::invalid_argument, "no monitor is called {}",
           request.spec);
    monitor result;
    result.name = request.spec;
    result.see = [sink = request.sink,
                  print = request.print](const event& what) {
      const auto& source = source_of(what);
      sink->write(metrics_record{source, {{"x", 0.1}}, {}});
      sink->write(alert{source, "echo", "look"});
      print("a report");
    };
    return result;
  }

 private:
  std::int64_t add(monitor what) {
    const std::scoped_lock lock(mutex_);
    attached_.emplace(++last_, std::move(what));
    return last_;
  }
  void remove(std::int64_t id) {
    const auto listeners = [&] {
      const std::scoped_lock lock(mutex_);
      return attached_.extract(id);
    }();
    if (listeners && listeners.mapped().finish)
      listeners.mapped().finish();
  }

  mutable std::mutex mutex_;
  std::map<std::int64_t, monitor> attached_;
  std::int64_t last_ = 0;
};

inline event step_number(std::int64_t number) {
  step_event result;
  result.source.step = number;
  return result;
}

/// A faked job, served at a socket in its own folder.
struct served_job {
  explicit served_job(job_server_options options = {})
    : server("unix:" + (folder / "socket"),
             with_operations(std::move(options))) {}

  job_server_options with_operations(job_server_options options) {
    options.operations = job.operations();
    return options;
  }
  std::string where() const { return server.where(); }

  temporary_folder folder;
  faked_job job;
  job_server server;
};

/// A client that sends arbitrary bytes to an endpoint.
struct stranger {
  explicit stranger(const std::string& where) : socket(where) {}

  void say(const std::string& bytes) { socket.send(bytes); }
  /// Everything that arrives until the other side ends or time is up.
  std::string listen(double seconds = 10) {
    std::string answer;
    const deadline until(seconds);
    while (socket.read(answer, std::chrono::milliseconds(until.milliseconds())))
      ;
    return answer;
  }
  http_client socket;
};

/// A request as clients send it.
inline std::string request_text(const std::string& method,
                                const std::string& path,
                                const std::string& body = {}) {
  auto text = method + " " + path + " HTTP/1.1\r\nHost: job\r\n";
  if (!body.empty())
    text += "Content-Type: application/json\r\nContent-Length: "
            + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

}  // namespace troupe::testing
