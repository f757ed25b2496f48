#include "troupe/monitors/live/workers.hpp"

#include <spdlog/spdlog.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/engine/device/thrown.hpp"

namespace troupe {

namespace asio = boost::asio;

struct workers::impl {
  asio::io_context jobs;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>>
    keep_running{jobs.get_executor()};
  std::vector<std::thread> threads;

  ~impl() { join(); }

  void join() {
    keep_running.reset();
    for (auto& each : threads)
      if (each.joinable())
        each.join();
  }

  void run() {
    for (;;) {
      try {
        jobs.run();
        return;
      } catch (...) {
        spdlog::warn("endpoint: {}", thrown_text());
      }
    }
  }
};

workers::workers(int threads) : impl_(std::make_unique<impl>()) {
  for (int i = 0; i < threads; ++i)
    impl_->threads.emplace_back([state = impl_.get()] { state->run(); });
}

workers::~workers() = default;

void workers::post(std::function<void()> job) {
  asio::post(impl_->jobs, std::move(job));
}

void workers::join() {
  impl_->join();
}

}  // namespace troupe
