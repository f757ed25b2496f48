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
  /// How long the thread polls a connection after its last data before it
  /// sleeps: this uses a core, but for less time than waking the thread would
  /// take. 0: it sleeps at once.
  std::chrono::microseconds spin{20};
};

/// One thread that serves all connections of a process. Callbacks must not
/// block for long. An exception ends only the callback that threw it.
class io_loop {
 public:
  explicit io_loop(const io_loop_options& options = {});
  /// Stops; pending work is dropped.
  ~io_loop();
  io_loop(const io_loop&) = delete;
  io_loop& operator=(const io_loop&) = delete;

  /// Runs `work` on the loop's thread; call it from any thread.
  void post(std::function<void()> work);
  /// Runs `work` and waits for it; not on the loop's own thread.
  void run(const std::function<void()>& work);
  bool is_own_thread() const;
  /// Calls `poll` repeatedly, between other work, until it returns false; call
  /// it on the loop's own thread.
  void poll(std::function<bool()> poll);
  std::chrono::microseconds spin() const;
  /// Sets the handler of exceptions that nobody caught, which runs on the
  /// loop's thread; call it on the loop's own thread. The default writes to
  /// standard error.
  void on_trouble(std::function<void(const std::string& reason)> handler);
  boost::asio::io_context& context();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
