#include "troupe/monitors/sinks/http_server.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "troupe/base/error.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/monitors/sinks/http_address.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using http_request = http::request<http::string_body>;
using http_answer = http::response<http::string_body>;

constexpr auto with_error = asio::as_tuple(asio::use_awaitable);
constexpr auto pause_before_retry = std::chrono::milliseconds(10);
/// For this long a client may take its answer, or send what nobody reads, while
/// others wait.
constexpr auto fair_share = std::chrono::seconds(1);

/// Bytes of a refused request that are read, so that its answer arrives.
constexpr auto least_discarded = std::size_t{1} << 20;

tcp::acceptor listen(asio::io_context& context, const http_options& options) {
  require_servable(options.address, options.token);
  const auto made = parse_http_address(options.address);
  try {
    const tcp::endpoint endpoint{asio::ip::make_address(made.host), made.port};
    return {context, endpoint, true};
  } catch (const boost::system::system_error& problem) {
    fail(error_code::io, "can't listen at {}: {}", options.address,
         problem.code().message());
  }
}

bool knows_token(const http_request& request, const http_options& options) {
  const std::string given = request[http::field::authorization];
  return same_secret(credentials_of(given, "Bearer"), options.token)
         || (options.for_browsers
             && same_secret(password_of(given), options.token));
}

/// In UTF-8, as JSON is.
bool is_json(std::string_view type) {
  return beast::iequals(type, "application/json")
         || beast::iequals(type, "application/json; charset=utf-8")
         || beast::iequals(type, "application/json;charset=utf-8");
}

/// Of the page that asks, `http://127.0.0.1:80`; none if it is no page.
bool is_foreign_page(const http_request& request) {
  const std::string origin = request[http::field::origin];
  constexpr std::string_view scheme = "http://";
  return !origin.empty()
         && (!origin.starts_with(scheme)
             || !beast::iequals(origin.substr(scheme.size()),
                                request[http::field::host]));
}

/// Headers that decide who is answered: of two, others could take the other
/// one.
std::optional<http_response> refused_double(const http_request& request) {
  for (const auto field :
       {http::field::host, http::field::origin, http::field::content_type,
        http::field::authorization})
    if (request.count(field) > 1)
      return http_response{
        400, "text/plain",
        fmt::format("send one {}\n", std::string_view(to_string(field)))};
  return std::nullopt;
}

http_response refusal(const http_request& request,
                      const http_options& options) {
  if (auto refused = refused_double(request))
    return std::move(*refused);
  const auto& token = options.token;
  if (!token.empty() && !knows_token(request, options))
    return {.status = 401,
            .type = "text/plain",
            .body = "token required\n",
            .headers = {{"WWW-Authenticate", options.for_browsers
                                               ? "Basic realm=\"troupe\""
                                               : "Bearer"}}};
  if (token.empty() && request.count(http::field::host) > 0
      && !is_plain_host(request[http::field::host]))
    return {403, "text/plain",
            "host not allowed; use 127.0.0.1 or localhost\n"};
  const bool posts = request.method() == http::verb::post && options.post;
  if ((posts || token.empty()) && is_foreign_page(request))
    return {403, "text/plain", "request from a page of another host\n"};
  if (posts)
    return is_json(request[http::field::content_type])
             ? http_response{}
             : http_response{415, "text/plain", "send application/json\n"};
  if (request.method() != http::verb::get
      && request.method() != http::verb::head)
    return {
      .status = 405,
      .type = "text/plain",
      .body = options.post ? "only GET, HEAD and POST are supported\n"
                           : "only GET and HEAD\n",
      .headers = {{"Allow", options.post ? "GET, HEAD, POST" : "GET, HEAD"}}};
  return {};
}

http_response respond(const http_request& request, const http_options& options,
                      const http_handler& handler) {
  const auto refused = refusal(request, options);
  if (refused.status != 200)
    return refused;
  try {
    const std::string target = request.target();
    const auto path = target.substr(0, target.find('?'));
    return request.method() == http::verb::post
             ? options.post(path, request.body())
             : handler(path);
  } catch (const std::exception& problem) {
    return {500, "text/plain", problem.what() + std::string("\n")};
  }
}

http_answer answer(const http_request& request, http_response response) {
  http_answer made{static_cast<http::status>(response.status), 11};
  made.set(http::field::content_type, response.type);
  made.set(http::field::cache_control, "no-store");
  made.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers)
    made.set(name, value);
  made.keep_alive(false);
  made.content_length(response.body.size());
  if (request.method() != http::verb::head)
    made.body() = std::move(response.body);
  return made;
}

/// The answer to what is no request, or too long; none where the connection
/// has ended.
std::optional<http_response> refused_bytes(const beast::error_code& problem,
                                           const http_options& options) {
  if (problem == http::error::body_limit)
    return http_response{
      413, "text/plain",
      fmt::format("send at most {} bytes\n", options.body_bytes)};
  if (problem == http::error::header_limit
      || problem == http::error::buffer_overflow)
    return http_response{431, "text/plain", "the headers are too long\n"};
  if (problem.category() != http::make_error_code(http::error{}).category()
      || problem == http::error::end_of_stream
      || problem == http::error::partial_message)
    return std::nullopt;
  return http_response{
    400, "text/plain",
    fmt::format("not a request of HTTP/1.1: {}\n", problem.message())};
}

}  // namespace

/// Coroutines on one thread. Those that are not finished are destroyed with
/// the context.
class http_server::loop {
 public:
  loop(const http_options& options, http_handler handler)
    : options_(options),
      handler_(std::move(handler)),
      acceptor_(listen(context_, options)),
      endpoint_(acceptor_.local_endpoint()) {
    asio::co_spawn(context_, accept(), asio::detached);
    thread_ = std::thread([this] { run(); });
  }
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;
  ~loop() {
    context_.stop();
    thread_.join();
  }

  std::string address() const {
    const auto host = endpoint_.address().to_string();
    if (endpoint_.address().is_v6())
      return fmt::format("[{}]:{}", host, endpoint_.port());
    return fmt::format("{}:{}", host, endpoint_.port());
  }

  std::size_t connections() const { return connections_; }

 private:
  void run() {
    ::sigset_t all;
    ::sigfillset(&all);  // signals are for the threads of the program
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    context_.run();
  }

  asio::awaitable<void> accept() {
    for (asio::steady_timer pause(context_);;) {
      auto [problem, socket] = co_await acceptor_.async_accept(with_error);
      if (problem) {
        co_await wait(pause);  // out of file descriptors, for example
        continue;
      }
      while (open_.size() >= options_.connections) {
        if (drop_one())
          co_await asio::post(context_, asio::use_awaitable);
        else
          co_await wait(pause);
      }
      asio::co_spawn(context_, serve(beast::tcp_stream(std::move(socket))),
                     asio::detached);
    }
  }

  /// State of an open connection, in the order in which they are dropped.
  enum class stage : std::uint8_t { lingers, asks, takes_answer };
  struct open_connection {
    beast::tcp_stream stream;
    stage now = stage::asks;
    std::chrono::steady_clock::time_point since{};  // it takes its answer
  };

  /// Counts an open connection as long as it lives.
  class place {
   public:
    place(loop& of, open_connection& taken) : loop_(of), taken_(taken) {
      loop_.open_.push_back(&taken_);
      loop_.connections_ = loop_.open_.size();
    }
    ~place() {
      std::erase(loop_.open_, &taken_);
      loop_.connections_ = loop_.open_.size();
    }
    place(const place&) = delete;
    place& operator=(const place&) = delete;

   private:
    loop& loop_;
    open_connection& taken_;
  };

  /// Makes room: the oldest of those that only linger, else of those that have
  /// not sent their request yet, else of those that are slow to take their
  /// answer.
  bool drop_one() {
    const auto oldest = std::ranges::min_element(
      open_, {}, [](const open_connection* each) { return each->now; });
    const auto& found = **oldest;
    if (found.now == stage::takes_answer
        && std::chrono::steady_clock::now() - found.since < fair_share)
      return false;
    (*oldest)->stream.close();
    open_.erase(oldest);
    return true;
  }

  asio::awaitable<void> wait(asio::steady_timer& pause) {
    pause.expires_after(pause_before_retry);
    co_await pause.async_wait(with_error);
  }

  asio::awaitable<void> serve(beast::tcp_stream given) {
    open_connection own{std::move(given)};
    const place taken(*this, own);
    auto& stream = own.stream;
    beast::flat_buffer buffer(options_.request_bytes);
    http::request_parser<http::string_body> parser;
    parser.body_limit(options_.body_bytes);
    parser.header_limit(static_cast<std::uint32_t>(options_.request_bytes));
    stream.expires_after(options_.timeout);
    const auto [no_request, read] =
      co_await http::async_read(stream, buffer, parser, with_error);
    auto refused = refused_bytes(no_request, options_);
    if (no_request && !refused)
      co_return;
    own.now = stage::takes_answer;
    own.since = std::chrono::steady_clock::now();
    const auto& request = parser.get();
    const auto said =
      answer(request, refused ? std::move(*refused)
                              : respond(request, options_, handler_));
    stream.expires_after(options_.timeout);
    co_await http::async_write(stream, said, with_error);
    beast::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    own.now = stage::lingers;
    if (refused)
      co_await discard_rest(stream);
  }

  /// A connection that closes with bytes unread is reset, and its answer with
  /// it.
  asio::awaitable<void> discard_rest(beast::tcp_stream& stream) {
    std::array<char, 4096> unread{};
    stream.expires_after(fair_share);
    for (auto left = std::max(64 * options_.body_bytes, least_discarded);
         left > 0;) {
      const auto [problem, count] =
        co_await stream.async_read_some(asio::buffer(unread), with_error);
      if (problem)
        co_return;
      left -= std::min(left, count);
    }
  }

  http_options options_;
  http_handler handler_;
  std::atomic<std::size_t> connections_ = 0;  // of `open_`, for other threads
  std::deque<open_connection*> open_;         // the oldest first
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  tcp::endpoint endpoint_;
  std::thread thread_;
};

http_server::http_server(const http_options& options, http_handler handler) {
  if (options.connections < 1 || options.request_bytes < 1
      || options.timeout.count() < 1)
    fail(error_code::invalid_argument,
         "a server of {} connections, {} bytes of a request and {} ms for it "
         "could answer nobody; use 1 or more of each",
         options.connections, options.request_bytes, options.timeout.count());
  loop_ = std::make_unique<loop>(options, std::move(handler));
}

http_server::~http_server() = default;

std::string http_server::address() const {
  return loop_->address();
}

std::size_t http_server::connections() const {
  return loop_->connections();
}

http_response page_response(std::string_view page) {
  constexpr std::string_view place = "@nonce@";
  const auto nonce = random_digits(4);
  std::string body(page);
  for (auto found = body.find(place); found != std::string::npos;
       found = body.find(place, found))
    body.replace(found, place.size(), nonce);
  return {
    .type = "text/html; charset=utf-8",
    .body = std::move(body),
    .headers = {
      {"Content-Security-Policy",
       fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src "
                   "'nonce-{0}'; img-src data:; connect-src 'self'; base-uri "
                   "'none'; form-action 'none'; frame-ancestors 'none'",
                   nonce)},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"}}};
}

}  // namespace troupe
