#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio {
class io_context;
}

namespace troupe {

struct io_loop_options {
  /// How long a connection on which something has come is looked at again and
  /// again, by a thread that then takes a core, before the thread sleeps: less
  /// than waking it would cost. 0: it sleeps at once.
  std::chrono::microseconds spin{20};
};

/// One thread that waits for all connections of a process. What it calls must
/// not wait for long. What that throws ends nothing but that call.
class io_loop {
 public:
  explicit io_loop(const io_loop_options& options = {});
  /// Stops; what was posted and has not run is dropped.
  ~io_loop();
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// Runs `work` on the loop's thread; from any thread.
  void post(std::function<void()> work);
  /// Runs `work` and waits for it; not from the loop's own thread.
  void run(const std::function<void()>& work);
  bool is_own_thread() const;
  /// Calls `look` over and over, beside all else, until it returns false; on
  /// the loop's own thread.
  void look(std::function<bool()> look);
  std::chrono::microseconds spin() const;
  /// Hears, on the loop's thread, what was thrown there and nobody caught; on
  /// the loop's own thread. Without one it is written to standard error.
  void on_trouble(std::function<void(const std::string& reason)> hear);
  boost::asio::io_context& context();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
