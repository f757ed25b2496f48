#include "troupe/engine/transport/io_loop.hpp"

#include <utility>

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <iterator>
#include <thread>
#include <vector>

namespace troupe {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

struct io_loop::impl {
  explicit impl(const io_loop_options& given) : options(given) {}

  /// Until the context is stopped.
  void run() {
    while (!context.stopped())
      if (looks.empty() && new_looks.empty())
        context.run_one();
      else
        look_around();
  }

  void look_around() {
    std::ranges::move(new_looks, std::back_inserter(looks));
    new_looks.clear();
    // A look at memory takes far less time than the poll after it.
    const auto until = clock::now() + std::chrono::microseconds(2);
    do {
      std::erase_if(looks, [](const auto& look) { return !look(); });
    } while (!looks.empty() && clock::now() < until);
    context.poll();
    std::this_thread::yield();  // to the other side, should it be on this core
  }

  io_loop_options options;
  asio::io_context context{1};
  std::vector<std::function<bool()>> looks, new_looks;
  asio::executor_work_guard<asio::io_context::executor_type> busy{
    context.get_executor()};
  std::thread thread{[this] {
    ::sigset_t all;
    ::sigfillset(&all);  // signals are for the threads of the program
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

void io_loop::look(std::function<bool()> look) {
  impl_->new_looks.push_back(std::move(look));
}

std::chrono::microseconds io_loop::spin() const {
  return impl_->options.spin;
}

asio::io_context& io_loop::context() {
  return impl_->context;
}

}  // namespace troupe
