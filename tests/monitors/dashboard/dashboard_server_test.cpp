#include "troupe/monitors/dashboard/dashboard_server.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "../../files.hpp"
#include "../../temporary_folder.hpp"
#include "../fixture_g.hpp"
#include "../http/http_client.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;

namespace {

constexpr auto ok = "HTTP/1.1 200 OK\r\n";

std::string address_of(const dashboard_server& shown) {
  const auto url = shown.url();
  return url.substr(7, url.size() - 8);
}

json state_of(const std::string& at, const std::string& path = "/state") {
  return json::parse(body_of(get(at, path)));
}

}  // namespace

TEST_CASE("a run is served as a page and its state") {
  trainer run(model_g(), options_g(2, 2));
  dashboard_server shown({.plan = run.shared_plan(),
                          .steps = 10,
                          .statistics_every = 5,
                          .health = [&] { return run.health(); }},
                         {});
  for (const auto& part : shown.monitors())
    run.attach(part);
  const auto at = address_of(shown);
  for (const auto& step : run.train(source_g(2), 10))
    CHECK(step.updated);
  run.finish_monitors();
  const auto state = state_of(at);
  CHECK(state["step"] == 10);
  CHECK(state["curves"]["train/loss"]["points"].size() == 10);
  CHECK(state["timeline"].size() == 4);
  CHECK(state["heat"]["step"] == 10);
  CHECK(state["heat"]["activation"][3][0].get<double>() > 0);
  CHECK(state["heat"]["gradient"][0][0].get<double>() > 0);
  CHECK(state["actors"]["ranks"].size() == 2);
  CHECK(state["over"] == true);
  const auto next = "/state/" + state["revision"].dump();
  CHECK(state_of(at, next)["curves"].empty());
}

TEST_CASE("the page may run only what it brought along") {
  const dashboard_server shown(
    {.plan = trainer(model_g(), options_g(2, 2)).shared_plan()}, {});
  const auto at = address_of(shown);
  const auto page = get(at, "/");
  CHECK_THAT(page, StartsWith(ok)
                     && ContainsSubstring("Content-Type: text/html")
                     && ContainsSubstring("default-src 'none'; script-src "
                                          "'nonce-")
                     && !ContainsSubstring("@nonce@"));
  const auto nonce = page.substr(page.find("'nonce-") + 7, 32);
  CHECK_THAT(page, ContainsSubstring("<script nonce=\"" + nonce + "\">")
                     && ContainsSubstring("<style nonce=\"" + nonce + "\">"));
  CHECK_THAT(get(at, "/"), !ContainsSubstring(nonce));
  for (const auto* path :
       {"/x", "/state/x", "/state//a", "/state/", "/state/1x", "/states", "//",
        "/state/99999999999999999999"})
    CHECK_THAT(get(at, path), StartsWith("HTTP/1.1 404"));
}

TEST_CASE("without the token nothing is answered but a refusal") {
  const dashboard_server shown(
    {.plan = trainer(model_g(), options_g(2, 2)).shared_plan()},
    {.address = "0.0.0.0:0", .token = "sesame"});
  const auto at = address_of(shown);
  for (const auto* path : {"/", "/state", "/state/0", "/x"})
    CHECK_THAT(
      get(at, path),
      StartsWith("HTTP/1.1 401")
        && ContainsSubstring("WWW-Authenticate: Basic realm=\"troupe\"")
        && !ContainsSubstring("1f1b") && !ContainsSubstring("html"));
  const std::string basic = "Authorization: Basic dTpzZXNhbWU=\r\n";
  CHECK_THAT(get(at, "/", basic), StartsWith(ok));
  CHECK_THAT(get(at, "/state", basic), StartsWith(ok));
  CHECK_THAT(get(at, "/state", "Authorization: Bearer sesame\r\n"),
             StartsWith(ok));
}

TEST_CASE("addresses that others reach need a token") {
  const auto plan = trainer(model_g(), options_g(2, 2)).shared_plan();
  CHECK_THROWS_AS(dashboard_server({.plan = plan}, {.address = "0.0.0.0:0"}),
                  error);
  CHECK_THROWS_AS(dashboard_server({.plan = plan}, {.address = "nonsense"}),
                  error);
}

TEST_CASE("other monitors' alerts and metrics are shown") {
  const dashboard_server shown(
    {.plan = trainer(model_g(), options_g(2, 2)).shared_plan()}, {});
  const auto sink = shown.sink();
  sink->write(alert{{}, "stability", "a spike"});
  sink->write(metrics_record{{}, {{"spike/score", 7}}, {}});
  const auto state = state_of(address_of(shown));
  CHECK(state["alerts"][0]["text"] == "a spike");
  CHECK(state["metrics"][0][0] == "spike/score");
}

TEST_CASE("each of several open pages learns that the run is over") {
  const auto plan = trainer(model_g(), options_g(2, 2)).shared_plan();
  auto shown = std::make_unique<dashboard_server>(
    dashboard_subject{.plan = plan}, dashboard_options{});
  const auto at = address_of(*shown);
  CHECK(state_of(at, "/state/0/a")["over"] == false);
  CHECK(state_of(at, "/state/0/b")["over"] == false);
  std::atomic<bool> ended = false;
  std::thread end([&] {
    shown.reset();
    ended = true;
  });
  CHECK(soon([&] { return state_of(at, "/state/0/a")["over"] == true; }));
  CHECK_FALSE(ended);
  CHECK(state_of(at, "/state/0/b")["over"] == true);
  end.join();
}

TEST_CASE("a page is saved with the state that it shows") {
  const temporary_folder folder;
  const auto path = folder / "run.html";
  {
    dashboard_server shown(
      {.plan = trainer(model_g(), options_g(2, 2)).shared_plan()},
      {.save = path});
    shown.add_warning("warning", "beware of </script>");
  }
  const auto page = content(path);
  const std::string open = "id=\"saved-state\">", close = "</script>";
  const auto begin = page.find(open);
  REQUIRE(begin != std::string::npos);
  const auto end = page.find(close, begin);
  const auto state =
    json::parse(page.substr(begin + open.size(), end - begin - open.size()));
  CHECK(state["over"] == true);
  CHECK(state["alerts"][0]["kind"] == "warning");
  CHECK(state["alerts"][0]["text"] == "beware of </script>");
}

TEST_CASE("an open page learns that the run is over") {
  const auto plan = trainer(model_g(), options_g(2, 2)).shared_plan();
  auto shown = std::make_unique<dashboard_server>(
    dashboard_subject{.plan = plan}, dashboard_options{});
  const auto at = address_of(*shown);
  CHECK(state_of(at)["over"] == false);
  std::thread end([&] { shown.reset(); });
  CHECK(soon([&] { return state_of(at)["over"] == true; }));
  end.join();
  CHECK_THROWS(http_client(at));
}
