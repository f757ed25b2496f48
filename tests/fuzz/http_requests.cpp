// Requests to a job over HTTP, answered by one without stages.
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include "parse.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/http/http_access.hpp"
#include "troupe/monitors/live/attached_monitors.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

using namespace troupe;

namespace {

namespace http = boost::beast::http;

std::int64_t attach(const monitor& watcher) {
  require_legal(watcher.wants);
  watcher.wants.covers_step(7);
  matches_glob(watcher.wants.names, "blocks.3.attention.query");
  return 1;
}

job_operations operations() {
  job_operations result;
  result.attach = attach;
  result.detach = [](std::int64_t) {};
  result.make = [](const wanted_monitor& request) {
    monitor attached;
    attached.name = request.spec;
    return attached;
  };
  result.info = [] { return nlohmann::json::object(); };
  result.plan = [] { return std::string("a plan"); };
  result.replan = [](const nlohmann::json& body) { return body; };
  return result;
}

/// What the endpoint serves, on this thread.
struct job {
  job()
    : attached(operations(), {}, [](std::int64_t) {}),
      served(site.add(resources())) {}

  std::vector<http_resource> resources() {
    using enum access_right;
    const auto answers = [this](auto make) -> http_handler {
      return [this, make](const auto& by) { by->answer(make(*this, by)); };
    };
    const auto by_text = [](job&, const auto& by) {
      return http_response{.body = by->request().path};
    };
    const auto events = [this](const auto& by) { attached.stream_events(by); };
    return {
      {"GET", "/", page, answers(by_text)},
      {"GET", "/state/*", page, answers(by_text)},
      {"GET", "/health", page,
       answers([](job& own, const auto&) { return own.attached.health(); })},
      {"GET", "/plan", watch,
       answers([](job& own, const auto&) { return own.attached.plan(); })},
      {"GET", "/monitors", watch,
       answers([](job& own, const auto&) { return own.attached.list(); })},
      {"POST", "/monitors", watch,
       [this](const auto& by) { attached.attach(by); }},
      {"DELETE", "/monitors/*", control, answers([](job& own, const auto& by) {
         return own.attached.detach(by->request())();
       })},
      {"GET", "/events", watch, events, true},
      {"POST", "/events", watch, events},
      {"POST", "/replan", control, answers([](job& own, const auto& by) {
         return own.attached.replan(by->request())();
       })}};
  }

  http_site site{access_tokens{.watch = "a-token-to-watch-with",
                               .control = "a-token-to-control-with"}};
  attached_monitors attached;
  std::shared_ptr<void> served;
};

/// None if the bytes are not a whole request.
std::optional<http_message> message_in(std::string_view bytes) {
  http::request_parser<http::string_body> parser;
  parser.body_limit(std::uint64_t{1} << 16);
  parser.header_limit(8192);
  parser.eager(true);
  boost::beast::error_code problem;
  while (!bytes.empty() && !problem && !parser.is_done())
    bytes.remove_prefix(
      parser.put(boost::asio::buffer(bytes.data(), bytes.size()), problem));
  if (problem || !parser.is_done())
    return std::nullopt;
  return parser.release();
}

http_entrance entrance_of(unsigned choice) {
  http_entrance entrance;
  entrance.place = static_cast<http_place>(choice % 4);
  entrance.proven_token = choice / 4 % 2;
  if (entrance.place == http_place::network) {
    entrance.page_token = "a-page-token";
    entrance.for_browsers = true;
  }
  return entrance;
}

void answer(job& own, const http_request& request) {
  const auto exchange =
    std::make_shared<http_exchange>(request, 1 << 16, [] {});
  own.site.answer(exchange);
  const auto response = exchange->take_answer();
  testing::require(response.has_value());
  // The two rights are enforced.
  if (request.right == access_right::page)
    testing::require(!response->streams && request.method == "GET");
  if (request.right == access_right::watch)
    testing::require(request.method != "DELETE" && request.path != "/replan");
  exchange->take_lines();
  exchange->close();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const auto choice = testing::take_choice(bytes);
    auto message = message_in(bytes);
    if (!message)
      return;
    job own;
    const auto body = message->body();
    const auto checked =
      checked_request(*message, entrance_of(choice), own.site);
    if (const auto* request = std::get_if<http_request>(&checked))
      for (int times = 0; times < 2; ++times)
        answer(own, *request);
    if (auto detach = own.attached.detach_all())
      detach();
    const auto wants = subscription_of(parse_json(body));
    testing::require(json_of(subscription_of(json_of(wants)))
                     == json_of(wants));
  });
}
