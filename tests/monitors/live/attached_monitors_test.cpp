#include "troupe/monitors/live/attached_monitors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "../../actors/captured_log.hpp"
#include "../../says.hpp"
#include "faked_job.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// An endpoint whose monitors throw at the first event.
template <class Thrown>
struct throwing_endpoint {
  explicit throwing_endpoint(const std::string& reason) {
    job_server_options options;
    options.operations = job.operations();
    options.operations.make = [reason](const wanted_monitor&) {
      monitor result;
      result.see = [reason](const event&) { throw Thrown(reason); };
      return result;
    };
    server = std::make_unique<job_server>("unix:" + (folder / "s"),
                                          std::move(options));
  }

  faked_job job;
  temporary_folder folder;
  std::unique_ptr<job_server> server;
};

}  // namespace

TEST_CASE("a monitor that fails tells the client why") {
  throwing_endpoint<stop_training> at("a bad tensor");
  live_client client(at.server->where());
  client.attach("any");
  CHECK_THROWS_AS(at.job.feed(step_number(1)), stop_training);
  const auto message = client.next(10);
  REQUIRE(message);
  CHECK(message->type == "ended");
  CHECK(message->content["reason"] == "a bad tensor");
  CHECK(message->content["stops_run"] == true);
}

TEST_CASE("a monitor that ends the run as a success stays attached") {
  throwing_endpoint<end_training> at("good enough");
  live_client client(at.server->where());
  const auto id = client.attach("any");
  CHECK_THROWS_AS(at.job.feed(step_number(1)), end_training);
  CHECK(client.request("GET", "/monitors").size() == 1);
  client.detach(id);
  const auto message = client.next(10);
  REQUIRE(message);
  CHECK(message->type == "ended");
  CHECK(message->content["stops_run"] == false);
}

TEST_CASE("monitors detach while orders are searched") {
  faked_job job;
  const temporary_folder folder;
  std::atomic<int> searching = 0;
  std::promise<void> may_end;
  const auto end = may_end.get_future().share();
  job_server_options options;
  options.operations = job.operations();
  options.operations.replan = [&](const nlohmann::json&) {
    ++searching;
    end.wait();
    return nlohmann::json::object();
  };
  job_server server("unix:" + (folder / "s"), std::move(options));
  std::vector<std::jthread> searchers;
  for (int i = 0; i < 5; ++i)
    searchers.emplace_back([&] {
      live_client searcher(server.where());
      searcher.request("POST", "/replan", nlohmann::json::object());
    });
  CHECK(becomes([&] { return searching > 0; }));
  live_client client(server.where());
  client.detach(client.attach("echo"));
  CHECK(searching == 1);  // the others wait for it
  may_end.set_value();
}

TEST_CASE("a monitor that the run gave up is reported, and forgotten") {
  served_job at;
  live_client client(at.where());
  for (int i = 0; i < 16; ++i)
    client.attach("echo");
  at.job.give_up("it holds too much");
  const auto message = client.next(10);
  REQUIRE(message);
  CHECK(message->type == "ended");
  CHECK(message->content["reason"] == "it holds too much");
  CHECK(client.request("GET", "/monitors").empty());
  CHECK(becomes([&] { return at.job.attached() == 0; }));
  client.attach("echo");
}

namespace {

/// An endpoint whose monitors don't end until they are allowed to.
struct slow_endpoint {
  slow_endpoint() {
    job_server_options options;
    options.operations = job.operations();
    options.operations.make = [this](const wanted_monitor&) {
      monitor result;
      result.finish = [this] {
        ++ending;
        while (!may_end)
          std::this_thread::yield();
      };
      return result;
    };
    server = std::make_unique<job_server>("unix:" + (folder / "s"),
                                          std::move(options));
  }
  ~slow_endpoint() { may_end = true; }

  void attach_and_leave() const {
    live_client leaving(server->where());
    leaving.attach("any");
  }

  faked_job job;
  const temporary_folder folder;
  std::atomic<int> ending = 0;
  std::atomic<bool> may_end = false;
  std::unique_ptr<job_server> server;
};

}  // namespace

TEST_CASE("what a newer client asks for is refused by name, not ignored") {
  served_job at;
  live_client client(at.where());
  const auto refused = [&](const std::string& path, const nlohmann::json& body,
                           const char* why) {
    CHECK_THROWS_MATCHES(client.request("POST", path, body), error, says(why));
  };
  refused("/monitors", {{"spec", "echo"}, {"kep", true}},
          "POST /monitors has no field 'kep' in the job's version of troupe, "
          "but spec, keep");
  refused("/replan", {{"schedule", "1f1b"}, {"forse", true}}, "'forse'");
  refused("/events", {{"zz", 1}}, "'subscription' has no field 'zz'");
  CHECK(at.job.attached() == 0);
}

TEST_CASE("how many texts were not logged is told at the end, too") {
  const captured_log log;
  {
    served_job at;
    live_client(at.where()).attach("echo", true);
    // Once its client has left, it logs an alert and a text for each step.
    REQUIRE(becomes([&] { return at.server.connections() == 0; }));
    for (int step = 1; step <= 40; ++step)
      at.job.feed(step_number(step));
    CHECK_THAT(log.text(), !ContainsSubstring("were not logged"));
  }
  CHECK_THAT(log.text(), ContainsSubstring("further messages of attached "
                                           "monitors were not logged"));
}

TEST_CASE("a list is answered while monitors are slow to end") {
  for (const int count : {1, 4}) {
    slow_endpoint at;
    live_client other(at.server->where());
    for (int i = 0; i < count; ++i)
      at.attach_and_leave();
    CHECK(becomes([&] { return at.ending == count; }));
    CHECK(other.request("GET", "/monitors").empty());
    CHECK_FALSE(at.may_end);
  }
}
