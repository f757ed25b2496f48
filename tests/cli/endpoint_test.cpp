// A live job's endpoint, used with curl, which knows nothing of troupe.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "../temporary_folder.hpp"
#include "../write_secret.hpp"
#include "background_program.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using nlohmann::json;
using namespace troupe::testing;

namespace {

/// A run that serves everything it can, until the test is over.
struct curled_run {
  explicit curled_run(const std::string& flags = {})
    : job(
      fmt::format("{} train --text {} --d-model 16 --layers 2 --heads 2 "
                  "--seq 8 --microbatch-size 2 --microbatches 4 --steps "
                  "100000000 --endpoint unix:{} --dashboard 127.0.0.1:0 "
                  "--sink prometheus:127.0.0.1:0 {}",
                  TROUPE_PROGRAM, write_text(folder), folder / "socket", flags),
      folder / "job") {
    if (run_program("curl --version").exit_code != 0)
      SKIP("needs curl");
    REQUIRE(job.writes("attach with: troupe top "));
  }

  std::string page() const {
    const auto output = job.output();
    const auto from = output.find("dashboard: ") + 11;
    return output.substr(from, output.find('\n', from) - from - 1);
  }
  /// curl's arguments for a request over the socket.
  std::string at_socket(const std::string& words) const {
    return fmt::format(
      "curl --silent --show-error --max-time 30 "
      "--unix-socket {} http://job{}",
      folder / "socket", words);
  }
  std::string curl(const std::string& words) const {
    return run_program(at_socket(words)).output;
  }
  std::string curl_page(const std::string& words) const {
    return run_program("curl --silent --max-time 30 " + page() + words).output;
  }

  temporary_folder folder;
  background_program job;
};

const std::string of_json = " -H 'Content-Type: application/json' ";

}  // namespace

TEST_CASE("curl reads each resource at a unix socket") {
  const curled_run at;
  const auto health = json::parse(at.curl("/health"));
  CHECK(health["version"] == 2);
  CHECK(health["ranks"] == 2);
  CHECK(health["failure"] == "");
  CHECK(health["ended"].is_null());
  CHECK_THAT(at.curl("/"), StartsWith("<!doctype html>"));
  CHECK(json::parse(at.curl("/state"))["facts"]["ranks"] == 2);
  CHECK(json::parse(at.curl("/state/0/me"))["over"] == false);
  CHECK_THAT(at.curl("/metrics"),
             ContainsSubstring("# TYPE troupe_step gauge"));
  CHECK_THAT(at.curl("/plan"), StartsWith("troupe plan "));
  CHECK(json::parse(at.curl("/monitors")) == json::array());
  CHECK_THAT(at.curl("/none"),
             ContainsSubstring("\"error\":\"there is no /no"));
  CHECK_THAT(at.curl("/health -I"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_CASE("curl attaches, detaches and replans") {
  const curled_run at;
  const auto attached = json::parse(at.curl(
    "/monitors" + of_json + R"(-d '{"spec":"throughput","keep":true}')"));
  const auto list = json::parse(at.curl("/monitors"));
  REQUIRE(list.size() == 1);
  CHECK(
    list[0]
    == json{{"id", attached["id"]}, {"spec", "throughput"}, {"keep", true}});
  CHECK(
    json::parse(at.curl("/monitors/" + attached["id"].dump() + " -X DELETE"))
    == json{{"detached", attached["id"]}});
  CHECK(json::parse(at.curl("/monitors")).empty());
  const auto replanned = json::parse(
    at.curl("/replan" + of_json + R"(-d '{"schedule":"gpipe","force":true}')"));
  CHECK(replanned["taken"] == true);
  CHECK(json::parse(at.curl("/health"))["schedule"] == "gpipe");
  CHECK_THAT(
    at.curl("/replan" + of_json + R"(-d '{"schedule":"gpipe","forse":1}')"),
    ContainsSubstring("has no field 'forse'"));
  CHECK_THAT(at.curl("/monitors -d '{\"spec\":\"overflow\"}' -i"),
             StartsWith("HTTP/1.1 415"));
}

TEST_CASE("streams of curl end with the run") {
  curled_run at;
  const background_program events(
    at.at_socket("'/events?memory=true&every=5'") + " --no-buffer",
    at.folder / "events");
  background_program client(
    at.at_socket("/monitors" + of_json + "-d '{\"spec\":\"throughput\"}'")
      + " --no-buffer",
    at.folder / "found");
  CHECK(events.writes("\"event\":\"memory\""));
  CHECK(client.writes("throughput/bubble"));
  CHECK(at.job.end(SIGTERM) == 143);
  CHECK(client.writes("\"type\":\"ended\""));
  CHECK(client.end(0) == 0);
  CHECK(events.writes("\"type\":\"ended\""));
  for (const background_program* stream : {&events, &std::as_const(client)}) {
    std::istringstream in(stream->output());
    std::vector<std::string> types;
    for (std::string line; std::getline(in, line);)
      types.push_back(json::parse(line)["type"]);
    CHECK(types.front() == "attached");
    CHECK(types.back() == "ended");
  }
}

TEST_CASE("on loopback curl does with a token what it does at the socket") {
  const temporary_folder folder;
  const auto watch = write_secret(folder, "a-secret-to-watch-with");
  const temporary_folder other;
  const auto control = write_secret(other, "a-secret-to-control-with");
  const curled_run at("--endpoint-token-file " + watch
                      + " --endpoint-control-token-file " + control);
  const auto show = [](const std::string& secret) {
    return " -H 'Authorization: Bearer " + secret + "'";
  };
  const auto as_watcher = show("a-secret-to-watch-with"),
             as_controller = show("a-secret-to-control-with");
  CHECK(json::parse(at.curl_page("/health"))["version"] == 2);
  CHECK_THAT(at.curl_page("/plan -i"), StartsWith("HTTP/1.1 401"));
  CHECK_THAT(at.curl_page("/plan" + as_watcher), StartsWith("troupe plan "));
  const auto keep = of_json + R"(-d '{"spec":"stability","keep":true}')";
  CHECK_THAT(at.curl_page("/monitors -i" + keep + as_watcher),
             StartsWith("HTTP/1.1 403"));
  CHECK_THAT(at.curl_page("/monitors -i" + keep + as_controller),
             StartsWith("HTTP/1.1 201"));
  CHECK_THAT(at.curl("/health -i"), StartsWith("HTTP/1.1 401"));
  CHECK_THAT(at.curl("/health -i" + as_watcher), StartsWith("HTTP/1.1 200"));
  CHECK_THAT(at.curl_page("/health -i -H 'Host: evil.example'"),
             StartsWith("HTTP/1.1 403"));
  CHECK_THAT(at.curl_page("/health -i -H 'Origin: http://evil.example'"),
             StartsWith("HTTP/1.1 403"));
}
