#include "troupe/monitors/live/live_client.hpp"

#include <limits>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"
#include "troupe/monitors/http/http_caller.hpp"
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

/// An answer of success. Throws the error of any other.
http_answer succeeded(http_answer answer) {
  if (answer.status >= 300)
    throw error(code_of(answer.status), reason_in(answer.body, answer.status));
  return answer;
}

live_client::attached_monitor monitor_in(const json& answer) {
  return {field<std::int64_t>(answer, "id"),
          answer.contains("folder") ? field<std::string>(answer, "folder")
                                    : std::string{}};
}

}  // namespace

live_client::live_client(const std::string& endpoint, const std::string& token,
                         double patience)
  : caller_(
    std::make_unique<http_caller>(target_of(endpoint, token), patience)),
    health_(request("GET", "/health")) {
  const auto version = field<int>(health_, "version");
  if (version != spoken_version)
    fail(error_code::transport,
         "{}: the job speaks version {} of the protocol, and this side version "
         "{}; use the same troupe on both",
         endpoint, version, spoken_version);
}

live_client::~live_client() = default;
live_client::live_client(live_client&&) noexcept = default;

std::string live_client::plan() {
  return succeeded(caller_->call("GET", "/plan")).body;
}

json live_client::request(std::string_view method, const std::string& path,
                          const json& body) {
  return parse_json(
    succeeded(
      caller_->call(method, path, body.is_null() ? "" : json_text(body)))
      .body);
}

/// Begins a stream, of which the first line tells the id.
live_client::attached_monitor live_client::open(const std::string& path,
                                                const json& body) {
  const auto first = succeeded(caller_->call("POST", path, json_text(body)));
  auto monitor = monitor_in(parse_json(first.body));
  monitors_[first.stream] = monitor.id;
  return monitor;
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

std::optional<live_message> live_client::next(double seconds) {
  const auto line = caller_->next_line(seconds);
  if (!line)
    return std::nullopt;
  auto content = parse_json(line->text);
  auto type = field<std::string>(content, "type");
  content.erase("type");
  return live_message{std::move(type), monitors_[line->stream],
                      std::move(content)};
}

bool live_client::ended() const {
  return !caller_->has_streams();
}

void live_client::interrupt() {
  caller_->interrupt();
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
