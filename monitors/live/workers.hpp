#pragma once

#include <functional>
#include <memory>

namespace troupe {

/// A fixed number of threads that run jobs. `asio::thread_pool` would hang in
/// its constructor where only some of its threads can be started.
class workers {
 public:
  /// Throws `std::system_error` if a thread can't be started; then none runs.
  explicit workers(int threads);
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;
  /// Joins.
  ~workers();

  /// From any thread. A job's exceptions are logged.
  void post(std::function<void()> job);
  /// Returns once all jobs have ended, those included that jobs post.
  void join();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
