#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <random>

#include "../attacked_run.hpp"
#include "faked_job.hpp"
#include "troupe/actors/step/run_health.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/monitors/live/attachment.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/trainer_operations.hpp"
#include "troupe/monitors/stability.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

monitor make_any(const wanted_monitor& request) {
  return request.spec == "stability" ? stability_monitor({}, request.sink)
                                     : faked_job::make(request);
}

/// A served run that goes on until the test has finished.
struct served_run : attacked_run {
  served_run() : server("unix:" + (folder / "socket"), options(run)) {}

  static job_server_options options(trainer& run) {
    job_server_options result;
    result.operations = operations_of(run);
    result.operations.make = make_any;
    return result;
  }

  temporary_folder folder;
  job_server server;
};

std::string random_bytes(std::mt19937& random, std::size_t most) {
  std::string bytes(random() % (most + 1), 0);
  for (auto& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

/// Clients' requests with some bytes changed, and random noise.
std::string bad_bytes(std::mt19937& random) {
  static const std::vector<std::string> requests{
    request_text("POST", "/monitors", R"({"spec":"echo","keep":false})"),
    request_text("POST", "/events", R"({"tensors":"all","every":1})"),
    request_text("GET", "/events?tensors=all&every=1"),
    request_text("DELETE", "/monitors/1"),
    request_text("GET", "/monitors"),
    request_text("POST", "/monitors", "[[[["),
    request_text("POST", "/monitors", "{}"),
    request_text("POST", "/monitors", "null"),
    request_text("POST", "/events", R"({"every":0})"),
    "POST /events HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Type: "
    "application/json\r\n\r\n2\r\n{}\r\n0\r\n\r\n"};
  if (random() % 4 == 0)
    return random_bytes(random, 300);
  auto bytes = requests[random() % requests.size()];
  for (auto changes = random() % 4; changes > 0; --changes)
    bytes[random() % bytes.size()] = static_cast<char>(random());
  if (random() % 2 == 0)
    bytes.resize(random() % bytes.size());
  return bytes;
}

void send_bad_requests(const std::string& where, int count) {
  std::mt19937 random(17);
  for (int i = 0; i < count; ++i) {
    stranger other(where);
    other.say(bad_bytes(random));
    if (i % 16 == 0)
      other.listen(0.01);
  }
}

void leave_open(const std::string& where) {
  std::mt19937 random(23);
  const auto request = request_text("GET", "/events");
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<std::unique_ptr<stranger>> crowd;
    for (int i = 0; i < 110; ++i) {
      crowd.push_back(std::make_unique<stranger>(where));
      crowd.back()->say(request.substr(0, random() % (request.size() + 1)));
    }
  }
}

void attack(int requests) {
  served_run at;
  const auto before = resident_bytes();
  const auto losses = at.train_beside([&] {
    send_bad_requests(at.server.where(), requests);
    leave_open(at.server.where());
    CHECK_THROWS_AS(live_client(at.server.where() + "x"), error);
    CHECK(live_client(at.server.where(), {}, 30).health()["ranks"] == 2);
  });
  CHECK(becomes([&] { return at.server.connections() == 0; }));
  CHECK(resident_bytes() - before < 256 << 20);
  live_client good(at.server.where());
  CHECK(good.request("GET", "/monitors").empty());
  at.check_untouched(losses);
}

}  // namespace

TEST_CASE("hostile clients change no bit of a run, and the server lives") {
  attack(1200);
}

TEST_CASE("ten thousand hostile clients change no bit of a run", "[.full]") {
  attack(10'000);
}

TEST_CASE("clients that come, go and are killed change no bit of a run") {
  served_run at;
  const auto losses = at.train_beside([&] {
    for (int i = 0; i < 60; ++i) {
      live_client client(at.server.where());
      subscription wants;
      wants.ops = true;
      wants.tensors = tensor_kinds_of("all");
      const auto id = client.attach(i % 2 == 0 ? "stability" : "echo");
      client.watch(wants);
      if (i % 3 != 0) {
        client.detach(id);
        CHECK(client.next(10));
      }
    }
  });
  live_client last(at.server.where());
  CHECK(becomes([&] { return last.request("GET", "/monitors").empty(); }));
  at.check_untouched(losses);
}

TEST_CASE("a reader that takes nothing holds up no step") {
  served_run at;
  live_client slow(at.server.where());
  subscription wants;
  wants.ops = true;
  wants.tensors = tensor_kinds_of("all");
  wants.needs = tensor_needs::statistics | tensor_needs::histogram;
  slow.watch(wants);
  const auto before = resident_bytes();
  std::vector<double> losses;
  for (int i = 0; i < 100; ++i)
    losses.push_back(at.step());
  CHECK(resident_bytes() - before < 256 << 20);
  at.check_untouched(losses);
}

TEST_CASE("a monitor of this process sees another's run") {
  served_run at;
  std::atomic<std::int64_t> steps{0}, tensors{0};
  monitor watcher;
  watcher.wants.tensors = tensor_kind::gradient;
  watcher.wants.names = "fc*";
  bool finished = false;
  watcher.see = [&](const event& what) {
    if (std::holds_alternative<step_event>(what))
      ++steps;
    if (const auto* some = std::get_if<tensors_event>(&what))
      for (const auto& record : some->tensors)
        tensors += record.owner->name.starts_with("fc") ? 1 : -1000;
  };
  watcher.finish = [&] { finished = true; };
  {
    const auto attached = attach(at.server.where(), watcher);
    at.train_beside(
      [&] { CHECK(becomes([&] { return steps >= 3 && tensors > 0; })); });
    CHECK_FALSE(attached.ended());
    CHECK(attached.trouble().empty());
  }
  CHECK(finished);
  live_client last(at.server.where());
  CHECK(becomes([&] { return last.request("GET", "/monitors").empty(); }));
}

TEST_CASE("a monitor of this process that throws ends alone") {
  served_run at;
  monitor watcher;
  watcher.see = [](const event&) { throw stop_training("enough"); };
  const auto attached = attach(at.server.where(), watcher);
  at.train_beside([&] { CHECK(becomes([&] { return attached.ended(); })); });
  CHECK(attached.trouble() == "enough");
  watcher.wants.needs = tensor_needs::handle;
  CHECK_THROWS_AS(attach(at.server.where(), watcher), error);
}

TEST_CASE("stop_training of a monitor attached by spec stops the run") {
  temporary_folder folder;
  attacked_run at;
  job_server_options options;
  options.operations = operations_of(at.run);
  options.operations.make = [](const wanted_monitor&) {
    monitor result;
    result.name = "stopper";
    result.see = [](const event&) { throw stop_training("a bad tensor"); };
    return result;
  };
  job_server server("unix:" + (folder / "s"), std::move(options));
  live_client client(server.where());
  client.attach("any");
  std::string reason;
  try {
    for (int i = 0; i < 1000; ++i)
      at.step();
  } catch (const error& failure) {
    reason = failure.what();
  }
  CHECK(reason.find("stopper: a bad tensor") != std::string::npos);
}
