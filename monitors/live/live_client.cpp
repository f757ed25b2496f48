#include "troupe/monitors/live/live_client.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <limits>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/live_trust.hpp"

namespace troupe {

namespace asio = boost::asio;
using state = stream_progress::state;

stream_socket::stream_socket(const endpoint& address, const deadline& until,
                             const trust& trusted)
  : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const auto reached =
    std::ranges::any_of(addresses_of(address),
                        [&](const auto& each) { return connect(each, until); });
  if (!reached)
    fail(error_code::transport,
         "no answer at {}: {}; is the job still running?", to_text(address),
         std::strerror(errno));
  stream_ = stream_over(handle_, trusted, link_side::client);
  if (trusted.tls)
    introduce(address, trusted, until);
  else
    require_own_user(*stream_);
}

void stream_socket::introduce(const endpoint& address, const trust& trusted,
                              const deadline& until) {
  asio::io_context here(1);
  awaited_stream over(here.get_executor(), std::move(stream_));
  std::optional<refusal> why = refusal{"it does not answer"};
  asio::co_spawn(here, troupe::introduce(over, link_side::client, trusted),
                 [&](const auto&, std::optional<refusal> found) {
                   why = std::move(found);
                   here.stop();
                 });
  asio::posix::stream_descriptor woken(here, ::dup(wake_.get()));
  woken.async_wait(asio::posix::descriptor_base::wait_read,
                   [&](const auto&) { here.stop(); });
  here.run_until(until.when());
  wait_for(short{0}, deadline(0));  // only to see an interrupt
  if (why)
    fail(error_code::transport, "{}: the job did not let this client in: {}",
         to_text(address), why->reason);
  stream_ = over.take();
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
    std::array<pollfd, 2> each{{{handle_, what, 0}, {wake_.get(), POLLIN, 0}}};
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
    return outcome::ended;  // a connection that is cut has ended, too
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

void stream_socket::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof(one));
}

using nlohmann::json;

namespace {

/// Limit of a welcome or a refusal: a peer that announces more is no job.
constexpr std::size_t welcome_limit = std::size_t{4} << 10;

bool is_streamed(live_type type) {
  return type >= live_type::event && type <= live_type::ended;
}

[[noreturn]] void fail_as_answered(const json& answer) {
  const bool usage = has_flag(answer, "usage");
  throw error(usage ? error_code::invalid_argument : error_code::transport,
              field<std::string>(answer, "error"));
}

}  // namespace

live_client::live_client(const std::string& endpoint, const std::string& token,
                         double patience)
  : endpoint_(endpoint),
    patience_(patience),
    until_(patience),
    socket_(parse_endpoint(endpoint), until_,
            trust_of_client(parse_endpoint(endpoint), token)),
    parser_(welcome_limit) {
  try {
    socket_.write(frame_bytes(live_type::hello, "{}"), until_);
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;  // else there may be a refusal to read
  }
  field<std::uint16_t>(parse_json(read_answer(live_type::welcome).payload),
                       "version");
  welcomed_ = true;
  parser_.set_limit(live_payload_limit);
}

json live_client::request(const json& what) {
  until_ = deadline(patience_);
  socket_.write(frame_bytes(live_type::request, json_text(what)), until_);
  auto answer = parse_json(read_answer(live_type::answer).payload);
  if (answer.contains("error"))
    fail_as_answered(answer);
  return answer;
}

live_client::attached_monitor live_client::attach(const std::string& spec,
                                                  bool keep) {
  const auto answer =
    request({{"do", "attach"}, {"spec", spec}, {"keep", keep}});
  return {field<std::int64_t>(answer, "id"),
          answer.contains("folder") ? field<std::string>(answer, "folder")
                                    : std::string{}};
}

std::int64_t live_client::watch(const subscription& wants) {
  const auto answer =
    request({{"do", "events"}, {"subscription", json_of(wants)}});
  return field<std::int64_t>(answer, "id");
}

void live_client::detach(std::int64_t id) {
  request({{"do", "detach"}, {"id", id}});
}

/// Empty if the deadline has passed or the connection has ended.
std::optional<live_frame> live_client::read(const deadline& until) {
  for (;;) {
    if (auto frame = parser_.next())
      return frame;
    std::string bytes;
    const auto outcome = socket_.read(bytes, until);
    ended_ = ended_ || outcome == stream_socket::outcome::ended;
    if (outcome != stream_socket::outcome::bytes)
      return {};
    parser_.add(bytes);
  }
}

live_frame live_client::read_answer(live_type wanted) {
  while (const auto frame = read(until_)) {
    if (frame->type == wanted)
      return *frame;
    if (frame->type == live_type::refusal)
      fail(error_code::transport, "the job refused: {}",
           field<std::string>(parse_json(frame->payload), "error"));
    keep(*frame);
  }
  if (ended_)
    fail(error_code::transport, "{}: the job closed the connection{}",
         endpoint_,
         welcomed_ ? ""
                   : " before it had said anything; if it was given tokens, "
                     "name the file of one (--token-file)");
  fail(error_code::transport, "{}: the job did not answer within {:g} s",
       endpoint_, patience_);
}

void live_client::keep(const live_frame& frame) {
  if (!welcomed_ || !is_streamed(frame.type))
    fail(error_code::transport, "the job sent an unexpected message");
  auto content = parse_json(frame.payload);
  const auto monitor = field<std::int64_t>(content, "id");
  waiting_.push_back({frame.type, monitor, std::move(content)});
}

std::optional<live_message> live_client::next(double seconds) {
  if (waiting_.empty() && !ended_)
    if (const auto frame = read(deadline(seconds)))
      keep(*frame);
  if (waiting_.empty())
    return {};
  auto first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

bool live_client::stream(const std::function<bool(const live_message&)>& see) {
  while (!ended()) {
    const auto message = next(std::numeric_limits<double>::infinity());
    if (message && !see(*message))
      return true;
  }
  return false;
}

}  // namespace troupe
