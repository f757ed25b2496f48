#include "troupe/monitors/live/live_client.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

using nlohmann::json;

namespace {

constexpr int spoken_version = 2;

http_target target_of(const std::string& endpoint, const std::string& token) {
  const auto address = parse_endpoint(endpoint);
  return {address, trust_of_client(address, token), token};
}

/// Wrong usage, but where the client or the moment is wrong.
error_code code_of(unsigned status) {
  return status >= 400 && status < 500 && status != 401 && status != 409
           ? error_code::invalid_argument
           : error_code::transport;
}

std::string reason_in(const std::string& body, unsigned status) {
  const auto parsed = parsed_json(body, 4);
  return parsed.is_object() && parsed.contains("error")
             && parsed["error"].is_string()
           ? parsed["error"].get<std::string>()
           : fmt::format("the job answered with status {}", status);
}

/// The whole body of a call that was answered with success.
std::string answer_of(http_call asked) {
  const auto status = asked.status();
  auto body = asked.body();
  if (status >= 300)
    throw error(code_of(status), reason_in(body, status));
  return body;
}

live_client::attached_monitor monitor_in(const json& answer) {
  return {field<std::int64_t>(answer, "id"),
          answer.contains("folder") ? field<std::string>(answer, "folder")
                                    : std::string{}};
}

}  // namespace

live_client::live_client(const std::string& endpoint, const std::string& token,
                         double patience)
  : patience_(patience),
    target_(target_of(endpoint, token)),
    health_(request("GET", "/health")) {
  const auto version = field<int>(health_, "version");
  if (version != spoken_version)
    fail(error_code::transport,
         "{}: the job speaks version {} of the protocol, and this side version "
         "{}; use the same troupe on both",
         endpoint, version, spoken_version);
}

http_call live_client::call(std::string_view method, const std::string& path,
                            const std::string& body) const {
  return {target_, method, path, body, patience_, *ended_};
}

std::string live_client::plan() {
  return answer_of(call("GET", "/plan", {}));
}

json live_client::request(std::string_view method, const std::string& path,
                          const json& body) {
  return parse_json(
    answer_of(call(method, path, body.is_null() ? "" : json_text(body))));
}

/// Begins a stream, of which the first line tells the id.
live_client::attached_monitor live_client::open(const std::string& path,
                                                const json& body) {
  auto asked = call("POST", path, json_text(body));
  if (asked.status() != 200)
    answer_of(std::move(asked));
  const auto found = monitor_in(parse_json(asked.first_line()));
  streams_.push_back({found.id, std::move(asked)});
  return found;
}

live_client::attached_monitor live_client::attach(const std::string& spec,
                                                  bool keep) {
  const json body{{"spec", spec}, {"keep", keep}};
  if (!keep)
    return open("/monitors", body);
  return monitor_in(request("POST", "/monitors", body));
}

std::int64_t live_client::watch(const subscription& wants) {
  return open("/events", json_of(wants));
}

void live_client::detach(std::int64_t id) {
  request("DELETE", fmt::format("/monitors/{}", id));
}

/// Without waiting; forgets streams that have ended.
std::optional<live_message> live_client::message_there() {
  for (auto& each : streams_)
    if (const auto line = each.call.line(deadline(0))) {
      auto content = parse_json(*line);
      auto type = field<std::string>(content, "type");
      content.erase("type");
      // The next one looks at the others first.
      std::rotate(&each, &each + 1, streams_.data() + streams_.size());
      return live_message{std::move(type), streams_.back().monitor,
                          std::move(content)};
    }
  std::erase_if(streams_,
                [](const open_stream& each) { return each.call.ended(); });
  return std::nullopt;
}

/// Until a stream may have more. Throws `interrupted`.
void live_client::wait(const deadline& until) const {
  std::vector<pollfd> all{{ended_->handle(), POLLIN, 0}};
  for (const auto& each : streams_)
    all.push_back({each.call.handle(), POLLIN, 0});
  while (::poll(all.data(), all.size(), until.milliseconds()) < 0
         && errno == EINTR)
    ;
  if (all.front().revents != 0)
    fail(error_code::interrupted, "interrupted");
}

std::optional<live_message> live_client::next(double seconds) {
  for (const deadline until(seconds);;) {
    const bool is_late = until.milliseconds() == 0;
    if (auto message = message_there())
      return message;
    if (is_late || streams_.empty())
      return std::nullopt;
    wait(until);
  }
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
