#include "troupe/monitors/live/live_client.hpp"

#include <limits>

#include "troupe/base/error.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/live_trust.hpp"

namespace troupe {

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
  : live_client(endpoint, token, patience, deadline(patience)) {}

live_client::live_client(const std::string& endpoint, const std::string& token,
                         double patience, const deadline& connected)
  : endpoint_(endpoint),
    patience_(patience),
    socket_(parse_endpoint(endpoint), connected,
            live_trust(parse_endpoint(endpoint), token)),
    parser_(welcome_limit) {
  try {
    socket_.write(frame_bytes(live_type::hello, "{}"), connected);
  } catch (const error& reason) {
    if (reason.code() == error_code::interrupted)
      throw;  // else there may be a refusal to read
  }
  const auto welcome =
    parse_json(read_answer(live_type::welcome, connected).payload);
  field<std::uint16_t>(welcome, "version");
  welcomed_ = true;
  parser_.set_limit(live_payload_limit);
}

json live_client::request(const json& what) {
  const deadline until(patience_);
  socket_.write(frame_bytes(live_type::request, json_text(what)), until);
  auto answer = parse_json(read_answer(live_type::answer, until).payload);
  if (answer.contains("error"))
    fail_as_answered(answer);
  return answer;
}

std::int64_t live_client::attach(const std::string& spec, bool keep) {
  const auto answer =
    request({{"do", "attach"}, {"spec", spec}, {"keep", keep}});
  return field<std::int64_t>(answer, "id");
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

live_frame live_client::read_answer(live_type wanted, const deadline& until) {
  while (const auto frame = read(until)) {
    if (frame->type == wanted)
      return *frame;
    if (frame->type == live_type::refusal)
      fail(error_code::transport, "the job refused: {}",
           field<std::string>(parse_json(frame->payload), "error"));
    keep(*frame);
  }
  if (ended_)
    fail(error_code::transport, "{}: the job closed the connection", endpoint_);
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
