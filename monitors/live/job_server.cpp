#include "troupe/monitors/live/job_server.hpp"

#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/transport/own_sockets.hpp"
#include "troupe/monitors/http/http_server.hpp"
#include "troupe/monitors/http/http_site.hpp"
#include "troupe/monitors/live/attached_monitors.hpp"

namespace troupe {

namespace asio = boost::asio;

namespace {

/// A fixed number of threads that run jobs. `asio::thread_pool` would hang in
/// its constructor where only some of its threads can be started.
class workers {
 public:
  /// Throws `std::system_error` if a thread can't be started; then none runs.
  explicit workers(int threads) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] { run(); });
  }
  /// Runs a job on one of the threads; any thread calls this. A job's
  /// exceptions are logged.
  void post(std::function<void()> job) {
    if (job)
      asio::post(jobs_, std::move(job));
  }
  /// Returns once all jobs have ended, those included that jobs post.
  void join() {
    keep_running_.reset();
    threads_.clear();
  }

 private:
  void run() {
    for (;;) {
      try {
        jobs_.run();
        return;
      } catch (...) {
        log()->warn("endpoint: {}", thrown_text());
      }
    }
  }

  asio::io_context jobs_;
  std::vector<std::jthread> threads_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>>
    keep_running_{jobs_.get_executor()};
};

/// Makes an answer; the exception is the answer where that fails.
void answer_by(const http_exchange_pointer& exchange,
               const std::function<void()>& part) {
  try {
    part();
  } catch (...) {
    exchange->answer(response_to_error());
  }
}

void require_no_query(const http_request& request) {
  const bool may_have = request.method == "GET" && request.path == "/events";
  if (!may_have && !request.query.empty())
    throw refused_request(
      400, request.method + " " + request.path + " has no query");
}

}  // namespace

class job_server::impl : public std::enable_shared_from_this<impl> {
 public:
  explicit impl(const job_server_options& options)
    : site_(options.site ? options.site
                         : std::make_shared<http_site>(options.tokens)) {}

  void open(const std::string& address, job_server_options options) {
    attached_.emplace(std::move(options.operations), options.attach_folder,
                      [weak = weak_from_this()](std::int64_t id) {
                        // On a server's thread, which may outlive this.
                        if (const auto self = weak.lock())
                          self->client_left(id);
                      });
    served_ = site_->add(resources());
    server_.emplace(http_options{.address = address, .limits = options.limits},
                    site_);
  }

  const http_server& server() const { return *server_; }

  void close() {
    if (std::exchange(is_closed_, true))
      return;
    // From here on no request is taken. Those before are answered: a monitor
    // that does not end is left behind by the run, so that these joins end.
    const auto over = site_->add(refusals());
    served_.reset();
    if (attached_)
      work_.post([this] { ends_.post(attached_->detach_all()); });
    work_.join();
    replans_.join();
    ends_.join();
    if (server_)
      server_->close();
  }

 private:
  using part = std::function<void(const http_exchange_pointer&)>;

  std::vector<http_resource> resources() {
    using enum access_right;
    const auto state = [this](http_response (attached_monitors::*of)() const) {
      return queued([this, of](const http_exchange_pointer& exchange) {
        exchange->answer(((*attached_).*of)());
      });
    };
    const auto events = queued(
      [this](const auto& exchange) { attached_->stream_events(exchange); });
    return {
      {"GET", "/health", page, state(&attached_monitors::health)},
      {"GET", "/plan", watch, state(&attached_monitors::plan)},
      {"GET", "/ranks", watch, state(&attached_monitors::ranks)},
      {"POST", "/ranks", control, queued([this](const auto& exchange) {
         exchange->answer(attached_->rehost(exchange->request()));
       })},
      {"GET", "/monitors", watch, state(&attached_monitors::list)},
      {"POST", "/monitors", watch,
       queued([this](const auto& exchange) { attached_->attach(exchange); })},
      {"DELETE", "/monitors/*", control, queued([this](const auto& exchange) {
         answer_later(ends_, exchange, attached_->detach(exchange->request()));
       })},
      {"GET", "/events", watch, events, true},
      {"POST", "/events", watch, events},
      {"POST", "/replan", control, queued([this](const auto& exchange) {
         answer_later(replans_, exchange,
                      attached_->replan(exchange->request()));
       })}};
  }

  /// The resources that refuse, while the last requests are answered.
  std::vector<http_resource> refusals() {
    auto all = resources();
    for (auto& each : all)
      each.answer = [](const http_exchange_pointer&) {
        throw refused_request(503, "the run is over");
      };
    return all;
  }

  /// A handler that runs the part on the thread of `work_`.
  http_handler queued(part answer) {
    return [this,
            answer = std::move(answer)](const http_exchange_pointer& exchange) {
      work_.post([this, answer, exchange] {
        ends_.post(attached_->forget_ended());
        answer_by(exchange, [&] {
          require_no_query(exchange->request());
          answer(exchange);
        });
      });
    };
  }

  static void answer_later(workers& on, const http_exchange_pointer& exchange,
                           std::function<http_response()> make) {
    on.post([exchange, make = std::move(make)] {
      answer_by(exchange, [&] { exchange->answer(make()); });
    });
  }

  void client_left(std::int64_t id) {
    work_.post([this, id] { ends_.post(attached_->client_left(id)); });
  }

  const http_site_pointer site_;
  std::optional<attached_monitors> attached_;  // of the thread of `work_`
  workers work_{1};
  /// Waits for monitors that end: one that is slow to must not keep other
  /// clients waiting.
  workers ends_{4};
  workers replans_{1};  // which take as long as a search
  std::shared_ptr<void> served_;
  std::optional<http_server> server_;
  bool is_closed_ = false;
};

job_server::job_server(const std::string& address, job_server_options options)
  : impl_(std::make_shared<impl>(options)) {
  try {
    impl_->open(address, std::move(options));
  } catch (...) {
    impl_->close();
    throw;
  }
}

job_server::~job_server() {
  close();
}

void job_server::close() {
  impl_->close();
}

std::string job_server::where() const {
  return impl_->server().address();
}

std::size_t job_server::connections() const {
  return impl_->server().connections();
}

}  // namespace troupe
