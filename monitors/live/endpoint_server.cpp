#include "troupe/monitors/live/endpoint_server.hpp"

#include <utility>

#include <unistd.h>

#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/transport/stream/listener.hpp"
#include "troupe/monitors/live/live_trust.hpp"
#include "troupe/monitors/live/session.hpp"

namespace troupe {

namespace asio = boost::asio;
using nlohmann::json;

namespace {

using stream_protocol = asio::generic::stream_protocol;

constexpr std::size_t most_strangers = 64;

/// Runs jobs until none can come any more. Their exceptions are logged.
void run(asio::io_context& jobs, const std::string& owner) {
  for (;;) {
    try {
      jobs.run();
      return;
    } catch (...) {
      log()->warn("{}: {}", owner, thrown_text());
    }
  }
}

/// A fixed number of threads that run jobs. `asio::thread_pool` would hang in
/// its constructor where only some of its threads can be started.
class workers {
 public:
  /// Throws `std::system_error` if a thread can't be started; then none runs.
  explicit workers(int threads) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] { run(jobs_, "endpoint"); });
  }
  /// From any thread. A job's exceptions are logged.
  void post(std::function<void()> job) { asio::post(jobs_, std::move(job)); }
  auto executor() { return jobs_.get_executor(); }
  /// Returns once all jobs have ended, those included that jobs post.
  void join() {
    keep_running_.reset();
    threads_.clear();
  }

 private:
  asio::io_context jobs_;
  std::vector<std::jthread> threads_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>>
    keep_running_{jobs_.get_executor()};
};

}  // namespace

struct endpoint_server::impl {
  impl(const std::string& address, endpoint_options given)
    : clients_allowed(given.clients),
      host{trust_of_job(parse_endpoint(address), given.tokens), given,
           [this](session& who) { admit(who); },
           [this](session_pointer who, json request) {
             return answer(std::move(who), std::move(request));
           },
           [this](session& who) { left(who); }},
      listening(std::make_unique<listener>(parse_endpoint(address))),
      where(listening->where()),
      attached(std::move(given.operations), given.attach_folder) {
    acceptor.assign(stream_protocol(listening->family(), 0),
                    ::dup(listening->handle()));
    asio::co_spawn(io, accept(), asio::detached);
    thread = std::thread([this] { run(io, "endpoint " + to_text(where)); });
  }

  asio::awaitable<void> accept() {
    boost::system::error_code trouble;
    asio::steady_timer pause(io);
    while (acceptor.is_open()) {
      auto socket = co_await acceptor.async_accept(
        asio::redirect_error(asio::use_awaitable, trouble));
      if (!trouble && !closing) {
        begin(std::move(socket));
      } else if (acceptor.is_open()) {  // out of file descriptors, say
        pause.expires_after(std::chrono::milliseconds(50));
        co_await pause.async_wait(
          asio::redirect_error(asio::use_awaitable, trouble));
      }
    }
  }

  void begin(stream_protocol::socket socket) {
    // Clients that never say hello must not keep others out.
    if (strangers.size() >= most_strangers)
      strangers.front()->close();
    const auto made = std::make_shared<session>(
      ++next_session, io.get_executor(), socket.release(), host);
    strangers.push_back(made);
    ++connections;
    made->start();
  }

  void admit(session& who) {
    if (closing)
      fail(error_code::transport, "the run is over");
    // Some places are left for those who may detach the others' monitors.
    const auto allowed = who.right() == access_right::control
                           ? clients_allowed
                           : clients_allowed - clients_allowed / 4;
    if (clients.size() >= allowed)
      fail(error_code::transport, "there are already {} clients{}",
           clients.size(),
           allowed < clients_allowed ? "; the other places are for those that "
                                       "may control the job"
                                     : "");
    const auto own = who.shared_from_this();
    strangers.remove(own);
    clients.push_back(own);
  }

  asio::awaitable<json> answer(session_pointer who, json request) {
    if (closing)
      co_return json{{"error", "the run is over"}, {"usage", false}};
    co_return co_await asio::co_spawn(work.executor(),
                                      serve(std::move(who), std::move(request)),
                                      asio::use_awaitable);
  }

  /// On the thread of `work`. Nothing passes through the thread of `io` before
  /// the answer is there: once the pools are joined, every request has its
  /// answer.
  asio::awaitable<json> serve(session_pointer who, json request) {
    auto reply =
      attached.answer({who->id(), who->right(), who->out()}, request);
    end(std::move(reply.tidy));
    if (!reply.slow)
      co_return std::move(reply.answer);
    const auto slow = [&reply]() -> asio::awaitable<json> {
      co_return reply.slow();
    };
    co_return co_await asio::co_spawn(
      (reply.searches ? replans : ends).executor(), slow, asio::use_awaitable);
  }

  void end(std::function<void()> part) {
    if (part)
      ends.post(std::move(part));
  }

  void left(session& who) {
    const auto own = who.shared_from_this();
    strangers.remove(own);
    if (clients.remove(own) > 0 && !closing)
      work.post([this, id = who.id()] { end(attached.client_left(id)); });
    --connections;
  }

  void on_thread(const std::function<void()>& part) {
    try {
      asio::post(io, asio::use_future(part)).get();
    } catch (...) {
      log()->warn("endpoint {}: {}", to_text(where), thrown_text());
    }
  }

  void close() {
    if (!thread.joinable())
      return;
    on_thread([&] {
      closing = true;
      boost::system::error_code ignored;
      acceptor.close(ignored);
      listening.reset();
    });
    // From here on no request is taken. Those before are answered: a monitor
    // that does not end is left behind by the run, so that these joins end.
    work.post([&] { end(attached.detach_all()); });
    work.join();
    replans.join();
    ends.join();
    on_thread([&] {
      keep_running.reset();
      for (const auto& all : {strangers, clients})
        for (const auto& each : all)
          each->leave();
    });
    thread.join();  // nothing is left to do when all sessions have ended
  }

  const std::size_t clients_allowed;
  session_host host;
  std::unique_ptr<listener> listening;
  const endpoint where;
  attached_monitors attached;  // of the thread of `work`
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> keep_running{
    io.get_executor()};
  workers work{1};
  /// Where monitors are waited for that end: one that is slow to must not keep
  /// other clients waiting.
  workers ends{4};
  workers replans{1};  // which take as long as a search
  asio::basic_socket_acceptor<stream_protocol> acceptor{io};
  // Used by the thread of `io` only; `strangers` have not said hello, oldest
  // first.
  std::list<session_pointer> strangers, clients;
  std::int64_t next_session = 0;
  bool closing = false;
  std::atomic<std::size_t> connections{0};
  std::thread thread;
};

endpoint_server::endpoint_server(const std::string& address,
                                 endpoint_options options) {
  if (options.clients < 1 || options.queue_bytes < 1
      || !(options.hello_seconds > 0 && options.stalled_seconds > 0))
    fail(error_code::invalid_argument,
         "an endpoint of {} clients, {} bytes for each, and {} and {} seconds "
         "to wait for one could serve nobody; use more than 0 of each",
         options.clients, options.queue_bytes, options.hello_seconds,
         options.stalled_seconds);
  impl_ = std::make_unique<impl>(address, std::move(options));
}

endpoint_server::~endpoint_server() {
  impl_->close();
}

void endpoint_server::close() {
  impl_->close();
}

std::string endpoint_server::where() const {
  return to_text(impl_->where);
}

std::size_t endpoint_server::connections() const {
  return impl_->connections;
}

}  // namespace troupe
