#include "troupe/monitors/live/attached_monitors.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <memory>
#include <thread>

#include "faked_job.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a monitor that fails tells the client why") {
  faked_job job;
  const temporary_folder folder;
  endpoint_options options;
  options.operations = job.operations();
  options.operations.make = [](const std::string&, const sink_pointer&,
                               const job_operations::printer&) {
    monitor made;
    made.see = [](const event&) { throw stop_training("a bad tensor"); };
    return made;
  };
  endpoint_server server("unix:" + (folder / "s"), std::move(options));
  live_client client(server.where());
  client.attach("any");
  CHECK_THROWS_AS(job.feed(step_number(1)), stop_training);
  const auto message = client.next(10);
  REQUIRE(message);
  CHECK(message->type == live_type::ended);
  CHECK(message->content["reason"] == "a bad tensor");
  CHECK(message->content["stops_run"] == true);
}

TEST_CASE("a monitor that the run gave up is told of, and forgotten") {
  served_job at;
  live_client client(at.where());
  for (int i = 0; i < 16; ++i)
    client.attach("echo");
  at.job.give_up("it holds too much");
  const auto message = client.next(10);
  REQUIRE(message);
  CHECK(message->type == live_type::ended);
  CHECK(message->content["reason"] == "it holds too much");
  CHECK(client.request({{"do", "list"}})["monitors"].empty());
  CHECK(becomes([&] { return at.job.attached() == 0; }));
  client.attach("echo");
}

TEST_CASE("a monitor that is slow to end keeps no other client waiting") {
  faked_job job;
  const temporary_folder folder;
  std::atomic<bool> ending = false, may_end = false;
  endpoint_options options;
  options.operations = job.operations();
  options.operations.make = [&](const std::string&, const sink_pointer&,
                                const job_operations::printer&) {
    monitor made;
    made.finish = [&] {
      ending = true;
      while (!may_end)
        std::this_thread::yield();
    };
    return made;
  };
  endpoint_server server("unix:" + (folder / "s"), std::move(options));
  live_client other(server.where());
  {
    live_client slow(server.where());
    slow.attach("any");
  }
  CHECK(becomes([&] { return ending.load(); }));
  CHECK(other.request({{"do", "list"}})["monitors"].empty());
  CHECK_FALSE(may_end);
  may_end = true;
}

TEST_CASE("a list is answered while many monitors are slow to end") {
  faked_job job;
  const temporary_folder folder;
  std::atomic<int> ending = 0;
  std::atomic<bool> may_end = false;
  endpoint_options options;
  options.operations = job.operations();
  options.operations.make = [&](const std::string&, const sink_pointer&,
                                const job_operations::printer&) {
    monitor made;
    made.finish = [&] {
      ++ending;
      while (!may_end)
        std::this_thread::yield();
    };
    return made;
  };
  endpoint_server server("unix:" + (folder / "s"), std::move(options));
  live_client other(server.where());
  std::vector<std::unique_ptr<live_client>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<live_client>(server.where()));
    slow.back()->attach("any");
    slow.back().reset();
  }
  CHECK(becomes([&] { return ending == 4; }));
  CHECK(other.request({{"do", "list"}})["monitors"].empty());
  may_end = true;
}
