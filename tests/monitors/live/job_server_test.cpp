#include "troupe/monitors/live/job_server.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <future>

#include "../../says.hpp"
#include "faked_job.hpp"
#include "troupe/monitors/live/attachment.hpp"
#include "troupe/monitors/live/event_json.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a monitor's findings stream to the client that attached it") {
  served_job at;
  live_client client(at.where());
  const auto id = client.attach("echo");
  at.job.feed(step_number(7));
  const auto metrics = client.next(10), alerted = client.next(10),
             printed = client.next(10);
  REQUIRE(printed);
  CHECK(metrics->type == "metrics");
  CHECK(metrics_of(metrics->content).source.step == 7);
  CHECK(alerted->type == "alert");
  CHECK(alert_of(alerted->content).text == "look");
  CHECK(alerted->monitor == id);
  CHECK(printed->type == "printed");
  CHECK(printed->content["text"] == "a report");
}

TEST_CASE("a client's monitors leave with it, unless they are to be kept") {
  served_job at;
  std::int64_t id = 0;
  {
    live_client first(at.where());
    first.attach("echo");
    id = first.attach("echo", true);
    CHECK(at.job.attached() == 2);
  }
  CHECK(becomes([&] { return at.job.attached() == 1; }));
  at.job.feed(step_number(1));  // nothing happens without listeners
  live_client second(at.where());
  const auto all = second.request("GET", "/monitors");
  REQUIRE(all.size() == 1);
  CHECK(all[0]["id"] == id);
  CHECK(all[0]["spec"] == "echo");
  CHECK(all[0]["keep"] == true);
  second.detach(id);
  CHECK(at.job.attached() == 0);
  CHECK_THROWS_MATCHES(second.detach(id), error, says("no monitor"));
}

TEST_CASE("events stream by subscription") {
  served_job at;
  live_client client(at.where());
  subscription wants;
  wants.every = 2;
  client.watch(wants);
  for (int step = 1; step <= 4; ++step)
    at.job.feed(step_number(step));
  for (const int step : {2, 4})
    CHECK(source_of(event_of(client.next(10)->content)).step == step);
  CHECK_FALSE(client.next(0));
}

TEST_CASE("a long event is one line") {
  served_job at;
  live_client client(at.where());
  subscription wants;
  wants.ops = true;
  client.watch(wants);
  ops_event ops{{.step = 2, .rank = 1}, {}};
  for (std::uint32_t i = 0; i < 50'000; ++i)
    ops.ops.push_back({i, i, 1, 2, 3});
  at.job.feed(ops);
  CHECK(json_of(event_of(client.next(10)->content)) == json_of(event{ops}));
}

TEST_CASE("a request that can't be served is answered, and others go on") {
  served_job at;
  live_client client(at.where());
  CHECK_THROWS_MATCHES(client.attach("nonsense:a=1"), error,
                       says("no monitor is called nonsense:a=1"));
  CHECK_THROWS_MATCHES(client.request("GET", "/dance"), error,
                       says("there is no /dance here"));
  CHECK_THROWS_MATCHES(client.request("POST", "/monitors", {{"spec", 3}}),
                       error, says("not a string"));
  CHECK_THROWS_MATCHES(
    client.request("POST", "/monitors", nlohmann::json::array()), error,
    says("not an object"));
  CHECK_THROWS_MATCHES(client.request("DELETE", "/health"), error,
                       says("/health answers GET, HEAD"));
  CHECK_THROWS_MATCHES(client.request("GET", "/monitors?all=1"), error,
                       says("GET /monitors has no query"));
  CHECK_THROWS_MATCHES(client.plan(), error, says("not known"));
  CHECK_THROWS_AS(client.request("POST", "/events", {{"every", 0}}), error);
  for (const auto* id : {"1", "x", "99999999999999999999"})
    CHECK_THROWS_MATCHES(
      client.request("DELETE", "/monitors/" + std::string(id)), error,
      says(std::string("no monitor ") + id));
  client.attach("echo");
  CHECK(client.request("GET", "/health")["schedule"] == "faked");
}

TEST_CASE("events are subscribed to by a query, too") {
  served_job at;
  const auto ask = [&](const std::string& query) {
    stranger one(at.where());
    one.say(request_text("GET", "/events?" + query));
    std::string answer;
    becomes([&] {
      one.socket.read(answer, std::chrono::milliseconds(10));
      return answer.find("\r\n\r\n") != std::string::npos;
    });
    at.job.feed(step_number(2));
    return answer + one.listen(0.05);
  };
  CHECK_THAT(ask("steps=true&every=2"),
             ContainsSubstring("200 OK") && ContainsSubstring("\"step\":2"));
  CHECK_THAT(
    ask("every=3&names=a.*,b&tensors=gradient"),
    ContainsSubstring("\"attached\"") && !ContainsSubstring("\"step\":2"));
  CHECK_THAT(ask("evry=3"),
             ContainsSubstring("400 Bad Request")
               && ContainsSubstring("'subscription' has no field 'evry'"));
  CHECK_THAT(ask("every=x"), ContainsSubstring("'every' is not a whole"));
  CHECK_THAT(ask("ops=1"), ContainsSubstring("'ops' is not true or false"));
  CHECK_THAT(ask("names"), ContainsSubstring("is not NAME=VALUE"));
}

TEST_CASE("a client without a request in time is sent away") {
  job_server_options options;
  options.limits.request_seconds = 0.05;
  served_job at(options);
  stranger silent(at.where()), slow(at.where());
  slow.say(request_text("GET", "/health").substr(0, 13));
  CHECK(silent.listen().empty());
  CHECK(slow.listen().empty());
  CHECK(becomes([&] { return at.server.connections() == 0; }));
}

TEST_CASE("there are so many streams and no more") {
  served_job at;
  const auto watching = [&] {
    auto client = std::make_unique<stranger>(at.where());
    client->say(request_text("POST", "/events", "{}"));
    return client;
  };
  std::vector<std::unique_ptr<stranger>> all;
  int streams = 0, refused = 0;
  for (int i = 0; i < 200; ++i) {
    all.push_back(watching());
    std::string answer;
    all.back()->socket.read(answer, std::chrono::seconds(10));
    streams += answer.starts_with("HTTP/1.1 200") ? 1 : 0;
    refused += answer.starts_with("HTTP/1.1 503") ? 1 : 0;
  }
  CHECK(streams == 64);
  CHECK(refused == 136);
  live_client client(at.where());
  CHECK_THROWS_MATCHES(client.watch({}), error,
                       says("64 monitors and streams"));
  all.clear();
  CHECK(becomes([&] { return at.job.attached() == 0; }));
  CHECK_NOTHROW(client.watch({}));
}

TEST_CASE("strangers can't keep a client out") {
  served_job at;
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int i = 0; i < 200; ++i)
    crowd.push_back(std::make_unique<stranger>(at.where()));
  live_client client(at.where());
  CHECK(client.health().is_object());
  CHECK(at.server.connections() <= 66);
}

TEST_CASE("a slow reader misses whole steps, and learns of it") {
  job_server_options options;
  options.limits.queue_bytes = 20'000;
  served_job at(options);
  live_client client(at.where());
  client.watch({});
  std::int64_t fed = 0;
  // Until the system's buffers are full, and beyond.
  for (; fed < 5000; ++fed)
    at.job.feed(step_number(fed));
  std::int64_t received = 0, dropped = 0;
  while (received + dropped < fed && fed < 10'000) {
    const auto message = client.next(0.01);
    if (!message) {
      at.job.feed(step_number(fed++));  // tells how many were lost before it
      continue;
    }
    const auto what = event_of(message->content);
    if (const auto* gap = std::get_if<dropped_event>(&what))
      dropped += gap->count;
    else
      ++received;
  }
  CHECK(dropped > 0);
  CHECK(received + dropped == fed);
}

TEST_CASE("a stream without steps goes on after a loss") {
  job_server_options options;
  options.limits.queue_bytes = 20'000;
  served_job at(options);
  live_client client(at.where());
  subscription wants;
  wants.steps = false;
  wants.ops = true;
  client.watch(wants);
  const auto feed = [&](std::int64_t step, std::size_t ops) {
    ops_event event;
    event.source.step = step;
    event.ops.resize(ops);
    at.job.feed(event);
  };
  feed(1, 10'000);  // more than ever fits
  feed(1, 1);
  feed(2, 1);
  const auto first = event_of(client.next(10)->content);
  REQUIRE(std::holds_alternative<dropped_event>(first));
  CHECK(std::get<dropped_event>(first).count == 2);
  CHECK(source_of(first).step == 1);
  CHECK(source_of(event_of(client.next(10)->content)).step == 2);
}

TEST_CASE("a report too long for any outbox is reported") {
  faked_job job;
  const temporary_folder folder;
  job_server_options options;
  options.limits.queue_bytes = 20'000;
  options.operations = job.operations();
  options.operations.make = [](const wanted_monitor& request) {
    monitor result;
    result.see = [sink = request.sink,
                  print = request.print](const event& what) {
      print(std::string(100'000, 'x'));
      sink->write(alert{source_of(what), "", std::string(100'000, 'x')});
      print("short");
    };
    return result;
  };
  job_server server("unix:" + (folder / "s"), std::move(options));
  live_client client(server.where());
  client.attach("any");
  job.feed(step_number(1));
  const auto text = [&] {
    return client.next(10)->content["text"].get<std::string>();
  };
  CHECK_THAT(text(), ContainsSubstring("1 findings are missing here"));
  CHECK_THAT(text(), ContainsSubstring("1 findings are missing here"));
  CHECK(text() == "short");
}

TEST_CASE("a reader that takes nothing is sent away") {
  job_server_options options;
  options.limits.stalled_seconds = 0.1;
  served_job at(options);
  live_client client(at.where());
  client.watch({});
  CHECK(becomes([&] {
    for (int i = 0; i < 100; ++i)
      at.job.feed(step_number(i));
    return at.job.attached() == 0;
  }));
}

namespace {

/// A job with a long plan, and requests for it from a client that reads no
/// answer.
struct flooded_job {
  static constexpr int requests = 1000;

  explicit flooded_job(job_server_options options) {
    options.operations = job.operations();
    options.operations.plan = [this] {
      ++answered;
      return std::string(1 << 20, 'p');
    };
    server = std::make_unique<job_server>("unix:" + (folder / "s"),
                                          std::move(options));
  }
  void flood() {
    for (int i = 0; i < requests; ++i) {
      all.push_back(std::make_unique<stranger>(server->where()));
      all.back()->say(request_text("GET", "/plan"));
    }
  }

  std::atomic<int> answered = 0;
  temporary_folder folder;
  faked_job job;
  std::unique_ptr<job_server> server;
  std::vector<std::unique_ptr<stranger>> all;
};

}  // namespace

TEST_CASE("clients that ask without reading get a bounded number of answers") {
  flooded_job at({});
  std::jthread flood([&] { at.flood(); });
  for (int i = 0; i < 10; ++i)
    CHECK(live_client(at.server->where(), {}, 30).health().is_object());
  CHECK(at.server->connections() <= 64);
}

TEST_CASE("a client that asks without reading is sent away") {
  job_server_options options;
  options.limits.stalled_seconds = 0.1;
  flooded_job at(options);
  stranger slow(at.server->where());
  slow.say(request_text("GET", "/plan"));
  REQUIRE(becomes([&] { return at.answered == 1; }));
  CHECK(becomes([&] { return at.server->connections() == 0; }));
}

TEST_CASE("a waiting client is interrupted") {
  served_job at;
  live_client client(at.where());
  client.watch({});
  std::thread other([&] { client.interrupt(); });
  CHECK_THROWS_MATCHES(client.next(60), error, says("interrupted"));
  other.join();
}

TEST_CASE("a silent endpoint is left after the patience, and named") {
  const temporary_folder folder;
  const auto path = folder / "socket";
  sockaddr_un at{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const auto silent = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(silent, reinterpret_cast<const sockaddr*>(&at), sizeof at)
          == 0);
  REQUIRE(::listen(silent, 1) == 0);
  CHECK_THROWS_MATCHES(
    live_client("unix:" + path, {}, 0.05), error,
    says("unix:" + path + ": the job did not answer within 0.05 s"));
  ::close(silent);
}

TEST_CASE("whatever an attached monitor throws ends its attachment alone") {
  served_job at;
  monitor watcher{.name = "thrower"};
  watcher.see = [](const event&) { throw 5; };
  watcher.finish = [] { throw 6; };
  const auto attached = attach(at.where(), watcher);
  at.job.feed(step_number(1));
  CHECK(becomes([&] { return attached.ended(); }));
  CHECK_FALSE(attached.trouble().empty());
}
