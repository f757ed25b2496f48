#include "troupe/monitors/http/http_call.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sstream>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/trust/authenticate.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"

namespace troupe {

namespace beast = boost::beast;
namespace http = beast::http;
using state = stream_progress::state;

interruption::interruption()
  : raised_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void interruption::raise() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written =
    ::write(raised_.get(), &one, sizeof(one));
}

stream_socket::stream_socket(const endpoint& address, const deadline& until,
                             const trust& trusted, const interruption& ended)
  : ended_(ended) {
  const auto reached =
    std::ranges::any_of(addresses_of(address),
                        [&](const auto& each) { return connect(each, until); });
  if (!reached)
    fail(error_code::transport,
         "no answer at {}: {}; is the job still running?", to_text(address),
         std::strerror(errno));
  stream_ = stream_over(handle_, trusted, link_side::client);
  require_own_user(*stream_);
}

bool stream_socket::connect(const socket_address& target,
                            const deadline& until) {
  handle_ =
    ::socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (::connect(handle_, target.get(), target.size) == 0)
    return true;
  int trouble = errno;
  if (trouble == EINPROGRESS) {
    socklen_t size = sizeof(trouble);
    trouble = ETIMEDOUT;
    if (wait_for(POLLOUT, until))
      ::getsockopt(handle_, SOL_SOCKET, SO_ERROR, &trouble, &size);
  }
  if (trouble == 0)
    return true;
  ::close(handle_);
  errno = trouble;
  return false;
}

/// False: the deadline has come.
bool stream_socket::wait_for(short what, const deadline& until) {
  for (;;) {
    std::array<pollfd, 2> each{
      {{handle_, what, 0}, {ended_.handle(), POLLIN, 0}}};
    const auto ready = ::poll(each.data(), each.size(), until.milliseconds());
    if (ready < 0 && errno == EINTR)
      continue;
    if (each[1].revents != 0)
      fail(error_code::interrupted, "interrupted");
    return ready > 0;
  }
}

bool stream_socket::wait_for(state need, const deadline& until) {
  return wait_for(need == state::needs_read ? POLLIN : POLLOUT, until);
}

stream_socket::outcome stream_socket::read(std::string& target,
                                           const deadline& until) {
  std::array<char, 64 * 1024> chunk;
  try {
    wait_for(short{0}, deadline(0));  // only to see an interrupt
    for (;;) {
      const auto progress = stream_->read(chunk.data(), chunk.size());
      if (progress.what == state::ended)
        return outcome::ended;
      if (progress.what == state::moved) {
        target.append(chunk.data(), progress.bytes);
        return outcome::bytes;
      }
      if (!wait_for(progress.what, until))
        return outcome::late;
    }
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;
    return outcome::ended;
  }
}

void stream_socket::write(std::string_view bytes, const deadline& until) {
  while (!bytes.empty()) {
    const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    const auto progress = stream_->write({&part, 1});
    if (progress.what == state::moved)
      bytes.remove_prefix(progress.bytes);
    else if (progress.what == state::ended)
      fail(error_code::transport, "the job closed the connection");
    else if (!wait_for(progress.what, until))
      fail(error_code::transport, "the job does not read");
  }
}

namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;  // of a body or line

std::string text_of(const http_target& target, std::string_view method,
                    const std::string& path, const std::string& body) {
  const auto& at = target.address;
  http::request<http::string_body> request;
  request.version(11);
  request.method_string(method);
  request.target(path);
  request.set(http::field::host,
              at.is_unix ? "job" : to_text(at).substr(std::strlen("tcp:")));
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

struct http_call::impl {
  impl(const http_target& target, double seconds, const interruption& ended)
    : where(to_text(target.address)),
      patience(seconds),
      until(seconds),
      socket(target.address, until, target.trusted, ended) {
    parser.eager(true);
    parser.body_limit(boost::none);
    parser.on_chunk_body(keep_lines);
  }

  /// Reads what is there by then; false: nothing more has come.
  bool advance(const deadline& then) {
    if (has_ended)
      return false;
    const auto outcome = socket.read(received, then);
    has_ended = outcome == stream_socket::outcome::ended;
    if (outcome == stream_socket::outcome::late)
      return false;
    beast::error_code problem;
    constexpr std::string_view begin = "HTTP/";
    if (!parser.got_some()
        && !received.starts_with(begin.substr(0, received.size())))
      problem = http::error::bad_version;  // the parser waits for all headers
    while (!problem && !received.empty() && !parser.is_done()) {
      const auto used = parser.put(boost::asio::buffer(received), problem);
      received.erase(0, used);
      if (problem || used == 0)
        break;
    }
    if (has_ended && parser.is_header_done() && !parser.is_done())
      parser.put_eof(problem);
    require_http(problem);
    has_ended = has_ended || parser.is_done();
    return true;
  }

  void require_http(const beast::error_code& problem) const {
    if (problem == http::error::partial_message
        || problem == http::error::need_more || !problem)
      return;
    fail(error_code::transport,
         "{}: what answers there is not a job of this version of troupe ({})",
         where, problem.message());
  }

  /// Waits until `is_there`; throws where it does not become so.
  template <class Condition>
  void wait_for(const Condition& is_there) {
    while (!is_there())
      if (!advance(until) && !is_there())
        fail(error_code::transport, "{}: the job {}", where,
             has_ended ? "closed the connection"
                       : fmt::format("did not answer within {:g} s", patience));
  }

  std::optional<std::string> line_there() {
    const auto end = lines.find('\n', searched);
    if (end == std::string::npos) {
      searched = lines.size();
      if (searched > most_bytes)
        fail(error_code::transport, "{}: a line of more than {} bytes", where,
             most_bytes);
      return std::nullopt;
    }
    auto found = lines.substr(0, end);
    lines.erase(0, end + 1);
    searched = 0;
    return found;
  }

  const std::string where;
  const double patience;
  const deadline until;  // for the answer
  stream_socket socket;
  std::string received, lines;
  std::size_t searched = 0;  // bytes of `lines` without a newline
  bool has_ended = false;
  http::response_parser<http::string_body> parser;
  std::function<std::size_t(std::uint64_t, beast::string_view,
                            beast::error_code&)>
    keep_lines =
      [this](std::uint64_t, beast::string_view some, beast::error_code&) {
        lines += some;
        return some.size();
      };
};

http_call::http_call(const http_target& target, std::string_view method,
                     const std::string& path, const std::string& body,
                     double patience, const interruption& ended)
  : impl_(std::make_unique<impl>(target, patience, ended)) {
  try {
    impl_->socket.write(text_of(target, method, path, body), impl_->until);
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;
    if (target.trusted.tls)
      fail(error_code::transport, "{}: the job did not let this client in: {}",
           impl_->where, reason.what());
    // There may be a refusal to read.
  }
}

http_call::~http_call() = default;
http_call::http_call(http_call&&) noexcept = default;
http_call& http_call::operator=(http_call&&) noexcept = default;

unsigned http_call::status() {
  impl_->wait_for([&] { return impl_->parser.is_header_done(); });
  return impl_->parser.get().result_int();
}

std::string http_call::body() {
  auto& text = impl_->parser.get().body();
  impl_->wait_for([&] {
    if (text.size() + impl_->lines.size() > most_bytes)
      fail(error_code::transport, "{}: an answer of more than {} bytes",
           impl_->where, most_bytes);
    return impl_->parser.is_done();
  });
  return text + impl_->lines;
}

std::string http_call::first_line() {
  std::optional<std::string> found;
  impl_->wait_for([&] { return found || (found = impl_->line_there()); });
  return *found;
}

std::optional<std::string> http_call::line(const deadline& until) {
  for (;;) {
    if (auto found = impl_->line_there())
      return found;
    if (!impl_->advance(until))
      return std::nullopt;
  }
}

bool http_call::ended() const {
  return impl_->has_ended
         && impl_->lines.find('\n', impl_->searched) == std::string::npos;
}

int http_call::handle() const {
  return impl_->socket.handle();
}

}  // namespace troupe
