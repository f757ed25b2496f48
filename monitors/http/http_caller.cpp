#include "troupe/monitors/http/http_caller.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <sstream>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/engine/transport/stream/awaited_stream.hpp"
#include "troupe/engine/transport/stream/dial.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"

namespace troupe {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;  // of a body or line
constexpr std::size_t chunk_of_answer = std::size_t{64} << 10;

std::string text_of(const http_target& target, std::string_view method,
                    const std::string& path, const std::string& body) {
  const auto& at = target.address;
  http::request<http::string_body> request;
  request.version(11);
  request.method_string(method);
  request.target(path);
  const std::string where = to_text(at);
  request.set(http::field::host,
              at.is_unix ? "job" : where.substr(where.find(':') + 1));
  request.keep_alive(false);
  if (at.is_unix && !target.token.empty())
    request.set(http::field::authorization, "Bearer " + target.token);
  if (!body.empty()) {
    request.set(http::field::content_type, "application/json");
    request.body() = body;
    request.prepare_payload();
  }
  std::ostringstream text;
  text << request;
  return text.str();
}

}  // namespace

/// A request's connection, which a coroutine of its own drives.
class http_caller::connection {
 public:
  explicit connection(const http_target& target) : target_(target) {
    parser_.eager(true);
    parser_.body_limit(boost::none);
    parser_.on_chunk_body(keep_lines_);
  }

  asio::awaitable<void> run(std::string request) {
    try {
      co_await connect();
      co_await stream_->write_all(request);
    } catch (...) {
      failure_ = std::current_exception();
    }
    try {
      // Where no request could be sent, there may be a refusal to read.
      for (bool more = stream_.has_value(); more && !parser_.is_done();)
        more = co_await read();
    } catch (...) {
      if (!failure_)
        failure_ = std::current_exception();
    }
    has_ended_ = true;
  }

  bool has_ended() const { return has_ended_; }
  bool is_stream() const {
    return parser_.is_header_done() && parser_.chunked()
           && parser_.get().result_int() == 200;
  }
  /// Whether a stream's first line, or all of the answer is there. Throws why
  /// not.
  bool is_answered() const {
    if (has_ended_ && !parser_.is_done() && !has_line())
      fail_to_answer();
    return is_stream() ? has_line() : parser_.is_done();
  }
  http_answer answer() {
    const auto& message = parser_.get();
    return {message.result_int(),
            is_stream() ? line() : message.body() + lines_};
  }
  bool has_line() const { return lines_.find('\n') != std::string::npos; }
  std::string line() {
    const auto end = lines_.find('\n');
    auto first = lines_.substr(0, end);
    lines_.erase(0, end + 1);
    return first;
  }
  void close() {
    if (stream_)
      stream_->close();
  }

 private:
  asio::awaitable<void> connect() {
    const auto on = co_await asio::this_coro::executor;
    std::string problem;
    for (const auto& each : addresses_of(target_.address)) {
      auto link = co_await troupe::connect(each, std::chrono::minutes(10));
      problem = link.problem;
      if (link.socket < 0)
        continue;
      auto bytes = stream_over(link.socket, target_.trusted, link_side::client);
      require_own_user(*bytes);
      stream_.emplace(on, std::move(bytes));
      co_return;
    }
    fail(error_code::transport,
         "no answer at {}: {}; is the job still running?", where(), problem);
  }

  /// Takes what has come; false: no more comes.
  asio::awaitable<bool> read() {
    const auto before = received_.size();
    received_.resize(before + chunk_of_answer);
    const auto got =
      co_await stream_->read_some(received_.data() + before, chunk_of_answer);
    received_.resize(before + got);
    constexpr std::string_view begin = "HTTP/";
    beast::error_code problem;
    if (!parser_.got_some()
        && !received_.starts_with(begin.substr(0, received_.size())))
      problem = http::error::bad_version;  // the parser waits for all headers
    while (!received_.empty() && !problem && !parser_.is_done())
      received_.erase(0, parser_.put(asio::buffer(received_), problem));
    if (problem && problem != http::error::need_more)
      fail(error_code::transport,
           "{}: what answers there is not a job of this version of troupe ({})",
           where(), problem.message());
    if (parser_.get().body().size() > most_bytes
        || (lines_.size() > most_bytes && !has_line()))
      fail(error_code::transport, "{}: more than {} bytes", where(),
           most_bytes);
    co_return got > 0;
  }

  [[noreturn]] void fail_to_answer() const {
    if (!failure_)
      fail(error_code::transport, "{}: the job closed the connection", where());
    if (!target_.trusted.tls || !stream_)
      std::rethrow_exception(failure_);
    try {
      std::rethrow_exception(failure_);
    } catch (const std::exception& reason) {
      fail(error_code::transport, "{}: the job did not let this client in: {}",
           where(), reason.what());
    }
  }

  std::string where() const { return to_text(target_.address); }

  const http_target& target_;
  std::optional<awaited_stream> stream_;
  std::string received_, lines_;
  std::exception_ptr failure_;
  bool has_ended_ = false;
  http::response_parser<http::string_body> parser_;
  std::function<std::size_t(std::uint64_t, beast::string_view,
                            beast::error_code&)>
    keep_lines_ =
      [this](std::uint64_t, beast::string_view some, beast::error_code&) {
        lines_ += some;
        return some.size();
      };
};

http_caller::http_caller(http_target target, double patience)
  : target_(std::move(target)), patience_(patience) {}

http_caller::~http_caller() {
  for (const auto& each : std::exchange(streams_, {}))
    each.from->close();
  io_.restart();
  io_.poll();  // ends their coroutines
}

http_answer http_caller::call(std::string_view method, const std::string& path,
                              const std::string& body) {
  const auto opened = std::make_shared<connection>(target_);
  spawn(io_.get_executor(),
        [opened, text = text_of(target_, method, path, body)] {
          return opened->run(text);
        });
  if (!wait([&] { return opened->is_answered(); }, deadline(patience_))) {
    opened->close();
    fail(error_code::transport, "{}: the job did not answer within {:.3g} s",
         to_text(target_.address), patience_);
  }
  auto answer = opened->answer();
  if (opened->is_stream())
    streams_.push_back({answer.stream = ++last_, opened});
  return answer;
}

std::optional<http_caller::line> http_caller::next_line(double seconds) {
  const auto with_line = [&] {
    return std::ranges::find_if(
      streams_, [](const auto& each) { return each.from->has_line(); });
  };
  wait(
    [&] {
      std::erase_if(streams_, [](const open_stream& each) {
        return each.from->has_ended() && !each.from->has_line();
      });
      return streams_.empty() || with_line() != streams_.end();
    },
    deadline(seconds));
  const auto place = with_line();
  if (place == streams_.end())
    return std::nullopt;
  // The next one looks at the others first.
  std::rotate(place, place + 1, streams_.end());
  return line{streams_.back().number, streams_.back().from->line()};
}

void http_caller::interrupt() {
  is_interrupted_ = true;
  asio::post(io_, [] {});
}

/// Waits until it is so; returns false once the time is over.
bool http_caller::wait(const std::function<bool()>& is_so,
                       const deadline& until) {
  for (;;) {
    if (is_interrupted_)
      fail(error_code::interrupted, "interrupted");
    if (is_so())
      return true;
    io_.restart();
    if (io_.run_one_until(until.when()) == 0)
      return false;
  }
}

}  // namespace troupe
