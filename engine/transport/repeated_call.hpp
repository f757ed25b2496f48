#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "troupe/engine/transport/io_loop.hpp"

namespace troupe {

/// Calls a function on a loop's thread: at once, and then at equal intervals,
/// also after calls that throw (io_loop::on_trouble gets their exceptions).
class repeated_call {
 public:
  repeated_call(io_loop& loop, std::chrono::milliseconds every,
                std::function<void()> call)
    : state_(std::make_shared<state>(loop, every, std::move(call))) {
    loop.post([to = state_] { to->run(); });
  }
  ~repeated_call() { stop(); }
  repeated_call(const repeated_call&) = delete;
  repeated_call& operator=(const repeated_call&) = delete;

  /// The function does not run any more when this returns. Any thread but the
  /// loop's.
  void stop() {
    state_->loop.run([&] {
      state_->call = {};
      state_->timer.cancel();
    });
  }

 private:
  struct state : std::enable_shared_from_this<state> {
    state(io_loop& on, std::chrono::milliseconds interval,
          std::function<void()> called)
      : loop(on),
        every(interval),
        timer(on.context()),
        call(std::move(called)) {}

    /// A wait that has just ended is not cancelled, so its handler may find no
    /// function.
    void run() {
      if (!call)
        return;
      timer.expires_after(every);
      timer.async_wait([to = shared_from_this()](const auto& problem) {
        if (!problem)
          to->run();
      });
      call();
    }

    io_loop& loop;
    const std::chrono::milliseconds every;
    boost::asio::steady_timer timer;
    std::function<void()> call;  // none: stopped
  };

  std::shared_ptr<state> state_;
};

}  // namespace troupe
