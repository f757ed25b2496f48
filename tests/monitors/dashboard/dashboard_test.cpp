#include "troupe/monitors/dashboard/dashboard.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "../fixture_g.hpp"
#include "../http/http_client.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a trainer is shown, with what other monitors report") {
  trainer run(model_g(), options_g(2, 2));
  dashboard page(run, {.steps = 4, .statistics_every = 2});
  for (const auto& step : run.train(source_g(2), 2))
    CHECK(step.updated);
  page.sink()->write(alert{{.step = 2}, "stability", "a spike"});
  page.add_warning("warning", "be warned");
  run.finish_monitors();
  const auto url = page.url();
  const auto state = nlohmann::json::parse(
    body_of(get(url.substr(7, url.size() - 8), "/state")));
  CHECK(state["step"] == 2);
  CHECK(state["steps"] == 4);
  CHECK(state["heat"]["step"] == 2);
  CHECK(state["alerts"].size() == 2);
}
