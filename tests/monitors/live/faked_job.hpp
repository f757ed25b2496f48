#pragma once

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

/// Looks again and again until it is so, for at most ten seconds.
inline bool becomes(const std::function<bool()>& so) {
  for (int i = 0; i < 10'000; ++i) {
    if (so())
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// The operations of a job that is none: it keeps what is attached, and the
/// test feeds it events.
class faked_job {
 public:
  job_operations operations() {
    job_operations made;
    made.attach = [this](monitor what) { return add(std::move(what)); };
    made.detach = [this](std::int64_t id) { remove(id); };
    made.make = make;
    made.info = [this] {
      ++asked;
      return nlohmann::json{{"schedule", "faked"}};
    };
    return made;
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
  std::atomic<int> asked = 0;  // how it is

  std::size_t attached() const {
    const std::scoped_lock lock(mutex_);
    return attached_.size();
  }

  /// `echo` tells of each step in all ways that there are.
  static monitor make(const wanted_monitor& wanted) {
    if (wanted.spec != "echo")
      fail(error_code::invalid_argument, "no monitor is called {}",
           wanted.spec);
    monitor made;
    made.name = wanted.spec;
    made.see = [sink = wanted.sink, print = wanted.print](const event& what) {
      const auto& source = source_of(what);
      sink->write(metrics_record{source, {{"x", 0.1}}, {}});
      sink->write(alert{source, "echo", "look"});
      print("a report");
    };
    return made;
  }

 private:
  std::int64_t add(monitor what) {
    const std::scoped_lock lock(mutex_);
    attached_.emplace(++last_, std::move(what));
    return last_;
  }
  void remove(std::int64_t id) {
    const auto found = [&] {
      const std::scoped_lock lock(mutex_);
      return attached_.extract(id);
    }();
    if (found && found.mapped().finish)
      found.mapped().finish();
  }

  mutable std::mutex mutex_;
  std::map<std::int64_t, monitor> attached_;
  std::int64_t last_ = 0;
};

inline event step_number(std::int64_t number) {
  step_event made;
  made.source.step = number;
  return made;
}

/// A faked job, served at a socket in a folder of its own.
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

/// Bytes to an endpoint, from somebody who knows no protocol.
struct stranger {
  explicit stranger(const std::string& where) : socket(where) {}

  void say(const std::string& bytes) { socket.send(bytes); }
  /// All that comes until the other side ends, or the deadline is there.
  std::string listen(double seconds = 10) {
    std::string heard;
    const deadline until(seconds);
    while (socket.read(heard, std::chrono::milliseconds(until.milliseconds())))
      ;
    return heard;
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
