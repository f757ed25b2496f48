#include "troupe/monitors/live/endpoint_server.hpp"

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
#include "troupe/monitors/live/event_json.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a monitor's findings stream to the client that attached it") {
  served_job at;
  live_client client(at.where());
  const auto id = client.attach("echo");
  at.job.feed(step_number(7));
  const auto metrics = client.next(10), told = client.next(10),
             printed = client.next(10);
  REQUIRE(printed);
  CHECK(metrics->type == live_type::metrics);
  CHECK(metrics_of(metrics->content).source.step == 7);
  CHECK(told->type == live_type::alert);
  CHECK(alert_of(told->content).text == "look");
  CHECK(told->monitor == id);
  CHECK(printed->type == live_type::printed);
  CHECK(printed->content["text"] == "a report");
}

TEST_CASE("a client's monitors leave with it, unless they are to be kept") {
  served_job at;
  std::int64_t kept = 0;
  {
    live_client first(at.where());
    first.attach("echo");
    kept = first.attach("echo", true);
    CHECK(at.job.attached() == 2);
  }
  CHECK(becomes([&] { return at.job.attached() == 1; }));
  at.job.feed(step_number(1));  // nobody listens, and nothing happens
  live_client second(at.where());
  const auto all = second.request({{"do", "list"}})["monitors"];
  REQUIRE(all.size() == 1);
  CHECK(all[0]["id"] == kept);
  CHECK(all[0]["spec"] == "echo");
  CHECK(all[0]["yours"] == false);
  second.detach(kept);
  CHECK(at.job.attached() == 0);
  CHECK_THROWS_MATCHES(second.detach(kept), error, says("no monitor"));
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

TEST_CASE("a request that can't be served is answered, and others go on") {
  served_job at;
  live_client client(at.where());
  CHECK_THROWS_MATCHES(client.attach("nonsense:a=1"), error,
                       says("no monitor is called nonsense:a=1"));
  CHECK_THROWS_MATCHES(client.request({{"do", "dance"}}), error,
                       says("unknown request 'dance'"));
  CHECK_THROWS_MATCHES(client.request({{"do", 3}}), error,
                       says("not a string"));
  CHECK_THROWS_MATCHES(client.request(nlohmann::json::array()), error,
                       says("not an object"));
  CHECK_THROWS_MATCHES(client.request({{"do", "plan"}}), error,
                       says("not known"));
  CHECK_THROWS_AS(
    client.request({{"do", "events"}, {"subscription", {{"every", 0}}}}),
    error);
  for (int i = 0; i < 16; ++i)
    client.attach("echo");
  CHECK_THROWS_MATCHES(client.attach("echo"), error, says("16 monitors"));
  CHECK(client.request({{"do", "info"}})["schedule"] == "faked");
}

TEST_CASE("another version is refused, naming both") {
  served_job at;
  auto hello = frame_bytes(live_type::hello, "{}");
  hello[4] = 2;
  stranger other(at.where());
  other.say(hello);
  const auto heard = other.listen();
  CHECK_THAT(heard,
             ContainsSubstring("version 2") && ContainsSubstring("version 1"));
}

TEST_CASE("before a hello nothing is answered but a refusal") {
  served_job at;
  stranger other(at.where());
  other.say(frame_bytes(live_type::request, R"({"do":"info"})"));
  CHECK_THAT(other.listen(), ContainsSubstring("must be a hello")
                               && !ContainsSubstring("faked"));
  CHECK(becomes([&] { return at.server.connections() == 0; }));
}

TEST_CASE("a client without a hello in time is sent away") {
  endpoint_options options;
  options.hello_seconds = 0.05;
  served_job at(options);
  stranger silent(at.where()), slow(at.where());
  slow.say(frame_bytes(live_type::hello, "{}").substr(0, 13));
  CHECK(silent.listen().empty());
  CHECK(slow.listen().empty());
  CHECK(becomes([&] { return at.server.connections() == 0; }));
}

TEST_CASE("there are so many clients and no more") {
  endpoint_options options;
  options.clients = 2;
  served_job at(options);
  live_client first(at.where());
  {
    const live_client second(at.where());
    CHECK_THROWS_MATCHES(live_client(at.where()), error, says("2 clients"));
  }
  CHECK(becomes([&] { return at.server.connections() == 1; }));
  CHECK_NOTHROW(live_client(at.where()));
}

TEST_CASE("strangers can't keep a client out") {
  served_job at;
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int i = 0; i < 200; ++i)
    crowd.push_back(std::make_unique<stranger>(at.where()));
  live_client client(at.where());
  CHECK(client.request({{"do", "info"}}).is_object());
  CHECK(at.server.connections() <= 66);
}

TEST_CASE("a slow reader misses whole steps, and learns of it") {
  endpoint_options options;
  options.queue_bytes = 20'000;
  served_job at(options);
  live_client client(at.where());
  client.watch({});
  std::int64_t fed = 0;
  // Until the system's own buffers are full, then some.
  for (; fed < 5000; ++fed)
    at.job.feed(step_number(fed));
  std::int64_t seen = 0, dropped = 0;
  while (seen + dropped < fed && fed < 10'000) {
    const auto message = client.next(0.01);
    if (!message) {
      at.job.feed(step_number(fed++));  // tells how many were before it
      continue;
    }
    const auto what = event_of(message->content);
    if (const auto* gap = std::get_if<dropped_event>(&what))
      dropped += gap->count;
    else
      ++seen;
  }
  CHECK(dropped > 0);
  CHECK(seen + dropped == fed);
}

TEST_CASE("a stream without steps goes on after a loss") {
  endpoint_options options;
  options.queue_bytes = 20'000;
  served_job at(options);
  live_client client(at.where());
  subscription wants;
  wants.steps = false;
  wants.ops = true;
  client.watch(wants);
  const auto feed = [&](std::int64_t step, std::size_t ops) {
    ops_event made;
    made.source.step = step;
    made.ops.resize(ops);
    at.job.feed(made);
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
  endpoint_options options;
  options.queue_bytes = 20'000;
  options.operations = job.operations();
  options.operations.make = [](const wanted_monitor& wanted) {
    monitor made;
    made.see = [sink = wanted.sink, print = wanted.print](const event& what) {
      print(std::string(100'000, 'x'));
      sink->write(alert{source_of(what), "", std::string(100'000, 'x')});
      print("short");
    };
    return made;
  };
  endpoint_server server("unix:" + (folder / "s"), std::move(options));
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
  endpoint_options options;
  options.stalled_seconds = 0.1;
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

/// A job whose plan is long, and requests for it from somebody who reads no
/// answer.
struct flooded_job {
  static constexpr int requests = 2000;

  explicit flooded_job(endpoint_options options) {
    options.operations = job.operations();
    options.operations.plan = [this] {
      ++answered;
      return std::string(64 << 10, 'p');
    };
    options.queue_bytes = 100'000;
    server = std::make_unique<endpoint_server>("unix:" + (folder / "s"),
                                               std::move(options));
    flood = std::make_unique<stranger>(server->where());
    auto bytes = frame_bytes(live_type::hello, "{}");
    for (int i = 0; i < requests; ++i)
      bytes += frame_bytes(live_type::request, R"({"do":"plan"})");
    flood->say(bytes);
  }

  std::atomic<int> answered = 0;
  temporary_folder folder;
  faked_job job;
  std::unique_ptr<endpoint_server> server;
  std::unique_ptr<stranger> flood;
};

}  // namespace

TEST_CASE(
  "a client that asks without reading gets a bounded number of answers, then "
  "all") {
  flooded_job at({});
  live_client other(at.server->where());
  for (int i = 0; i < 300; ++i)  // each round lets the flood have its turn
    CHECK(other.request({{"do", "info"}})["schedule"] == "faked");
  CHECK(at.answered < 60);  // the outbox, and what the system buffers
  std::string heard;
  while (at.answered < flooded_job::requests) {
    heard.clear();
    REQUIRE(at.flood->socket.read(heard, deadline(10))
            == stream_socket::outcome::bytes);
  }
}

TEST_CASE("a client that asks without reading is sent away") {
  endpoint_options options;
  options.stalled_seconds = 0.1;
  flooded_job at(options);
  CHECK(becomes([&] { return at.server->connections() == 0; }));
  CHECK(at.answered < 60);
}

TEST_CASE("at the end clients get what waits, and the file goes") {
  served_job at;
  live_client client(at.where());
  client.watch({});
  at.job.feed(step_number(1));
  at.server.close();
  CHECK(at.job.attached() == 0);
  CHECK(client.next(10)->type == live_type::event);
  CHECK(client.next(10)->type == live_type::ended);
  CHECK_FALSE(client.next(10));
  CHECK(client.ended());
  CHECK_THROWS_MATCHES(live_client(at.where(), "", 1), error,
                       says("no answer at"));
}

namespace {

/// Asks again and again until the connection ends.
void ask_for_ever(const std::string& where, std::atomic<int>& asking) {
  try {
    live_client client(where);
    for (bool first = true;; first = false) {
      client.request({{"do", "list"}});
      asking += first ? 1 : 0;
    }
  } catch (const error&) {  // the server is gone
  }
}

}  // namespace

TEST_CASE("a server ends while clients ask") {
  for (int round = 0; round < 10; ++round) {
    served_job at;
    std::atomic<int> asking = 0;
    std::vector<std::jthread> all;
    for (int i = 0; i < 32; ++i)
      all.emplace_back([&] { ask_for_ever(at.where(), asking); });
    REQUIRE(becomes([&] { return asking == 32; }));
    const auto closed =
      std::async(std::launch::async, [&] { at.server.close(); });
    if (closed.wait_for(std::chrono::seconds(20))
        != std::future_status::ready) {
      std::fputs("the server does not end\n", stderr);
      std::abort();  // no thread of it can be ended
    }
  }
}

TEST_CASE("a request in flight is answered when the server ends") {
  faked_job job;
  const temporary_folder folder;
  std::atomic<bool> asked = false, may_answer = false;
  endpoint_options options;
  options.operations = job.operations();
  options.operations.info = [&] {
    asked = true;
    while (!may_answer)
      std::this_thread::yield();
    return nlohmann::json{{"schedule", "faked"}};
  };
  endpoint_server server("unix:" + (folder / "s"), std::move(options));
  live_client client(server.where());
  const auto answer = std::async(std::launch::async, [&] {
    return client.request({{"do", "info"}})["schedule"].get<std::string>();
  });
  REQUIRE(becomes([&] { return asked.load(); }));
  const auto closed = std::async(std::launch::async, [&] { server.close(); });
  may_answer = true;
  CHECK(closed.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

TEST_CASE("a waiting client is interrupted") {
  served_job at;
  live_client client(at.where());
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
