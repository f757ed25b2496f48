#include "troupe/engine/transport/io_loop.hpp"

#include <utility>

#include <pthread.h>
#include <signal.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>

namespace troupe {

namespace asio = boost::asio;

struct io_loop::impl {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> busy{
    context.get_executor()};
  std::thread thread{[this] {
    ::sigset_t all;
    ::sigfillset(&all);  // signals are for the threads of the program
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ::pthread_setname_np(::pthread_self(), "troupe-links");
    context.run();
  }};
};

io_loop::io_loop() : impl_(std::make_unique<impl>()) {}

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

asio::io_context& io_loop::context() {
  return impl_->context;
}

}  // namespace troupe
