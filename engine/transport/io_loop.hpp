#pragma once

#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
}

namespace troupe {

/// One thread that waits for all connections of a process. What it calls must
/// not wait for long.
class io_loop {
 public:
  io_loop();
  /// Stops; what was posted and has not run is dropped.
  ~io_loop();
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// Runs `work` on the loop's thread; from any thread.
  void post(std::function<void()> work);
  /// Runs `work` and waits for it; not from the loop's own thread.
  void run(const std::function<void()>& work);
  bool is_own_thread() const;
  boost::asio::io_context& context();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
