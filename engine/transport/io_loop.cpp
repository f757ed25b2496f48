#include "troupe/engine/transport/io_loop.hpp"

#include <utility>

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <future>
#include <iterator>
#include <thread>
#include <vector>

#include "troupe/engine/device/thrown.hpp"

namespace troupe {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

struct io_loop::impl {
  explicit impl(const io_loop_options& settings) : options(settings) {}

  /// Runs until the context is stopped.
  void run() noexcept {
    while (!context.stopped()) {
      try {
        if (polls.empty() && new_polls.empty())
          context.run_one();
        else
          poll_all();
      } catch (...) {
        report(thrown_text());
      }
    }
  }

  bool run(const std::function<bool()>& poll) noexcept {
    try {
      return poll();
    } catch (...) {
      report(thrown_text());
      return false;
    }
  }

  void report(const std::string& reason) noexcept {
    try {
      if (trouble)
        return trouble(reason);
    } catch (...) {
    }
    std::fputs("troupe: error: the thread of the links failed: ", stderr);
    std::fputs((reason + '\n').c_str(), stderr);
  }

  void poll_all() {
    std::ranges::move(new_polls, std::back_inserter(polls));
    new_polls.clear();
    // Polling memory is much cheaper than polling the context afterwards.
    const auto until = clock::now() + std::chrono::microseconds(2);
    do {
      std::erase_if(polls, [this](const auto& poll) { return !run(poll); });
    } while (!polls.empty() && clock::now() < until);
    context.poll();
    std::this_thread::yield();  // to the other side, if it runs on this core
  }

  io_loop_options options;
  asio::io_context context{1};
  std::vector<std::function<bool()>> polls, new_polls;
  std::function<void(const std::string&)> trouble;
  asio::executor_work_guard<asio::io_context::executor_type> busy{
    context.get_executor()};
  std::thread thread{[this] {
    ::sigset_t all;
    ::sigfillset(&all);  // signals belong to the program's threads
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ::pthread_setname_np(::pthread_self(), "troupe-links");
    run();
  }};
};

io_loop::io_loop(const io_loop_options& options)
  : impl_(std::make_unique<impl>(options)) {}

io_loop::~io_loop() {
  impl_->context.stop();
  impl_->thread.join();
}

void io_loop::post(std::function<void()> work) {
  asio::post(impl_->context, std::move(work));
}

void io_loop::run(const std::function<void()>& work) {
  std::packaged_task<void()> task(work);
  auto done = task.get_future();
  post([&task] { task(); });
  done.get();
}

bool io_loop::is_own_thread() const {
  return std::this_thread::get_id() == impl_->thread.get_id();
}

void io_loop::poll(std::function<bool()> poll) {
  impl_->new_polls.push_back(std::move(poll));
}

void io_loop::on_trouble(std::function<void(const std::string&)> handler) {
  impl_->trouble = std::move(handler);
}

std::chrono::microseconds io_loop::spin() const {
  return impl_->options.spin;
}

asio::io_context& io_loop::context() {
  return impl_->context;
}

}  // namespace troupe
