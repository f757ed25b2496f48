#include "troupe/monitors/live/endpoint_server.hpp"

#include <catch2/catch_test_macros.hpp>

#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "../fixture_g.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/live/live_client.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a trainer is served, and its order of ops can be changed") {
  temporary_folder folder;
  trainer run(model_g(), options_g(2, 2));
  endpoint_server server(
    run,
    {.address = "unix:" + (folder / "s"), .steps = 9, .replan_every = 1000});
  live_client client(server.where());
  CHECK(client.health()["schedule"] == "1f1b");
  CHECK(client.health()["steps"] == 9);
  const auto answer =
    client.request("POST", "/replan", {{"schedule", "gpipe"}, {"force", true}});
  CHECK(answer["taken"] == true);
  run.step(source_g(2));
  CHECK(run.plan().schedule_name == "gpipe");
  server.close();
  CHECK_THROWS_AS(live_client(server.where(), {}, 0.1), error);
}

TEST_CASE("searches for an order of a run whose order is fixed are refused") {
  temporary_folder folder;
  auto options = options_g(2, 2);
  options.schedule =
    make_schedule("weight_stash", {.ranks = 2, .microbatches = 2});
  trainer run(model_g(), options);
  CHECK_THROWS_MATCHES(
    endpoint_server(run,
                    {.address = "unix:" + (folder / "s"), .replan_every = 10}),
    error, says("replan_every is 10: replanning is not supported"));
}
