#include "troupe/monitors/sinks/prometheus_sink.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>

#include "../../run_program.hpp"
#include "../http/http_client.hpp"
#include "records.hpp"
#include "troupe/base/error.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

struct served {
  std::string url;
  sink_pointer sink =
    prometheus_sink({.listening = [this](const std::string& at) { url = at; }});

  std::string address() const {
    const auto from = std::string("http://").size();
    return url.substr(from, url.find('/', from) - from);
  }
};

}  // namespace

TEST_CASE("metrics are served where the sink says") {
  const served sink;
  CHECK_THAT(sink.url, StartsWith("http://127.0.0.1:") && EndsWith("/metrics"));
  sink.sink->write(record_of(4, {{"loss", 2.5}}));
  sink.sink->write(alert_of(4, "stability", "a spike"));
  const auto response = get(sink.address(), "/metrics");
  CHECK_THAT(response,
             StartsWith("HTTP/1.1 200 OK\r\n")
               && ContainsSubstring(
                 "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
               && ContainsSubstring("\ntroupe_loss 2.5\n")
               && EndsWith("\ntroupe_alerts_total{monitor=\"stability\"} 1\n"));
  CHECK_THAT(get(sink.address(), "/"), StartsWith("HTTP/1.1 404"));
}

TEST_CASE("a reader that is stuck delays no monitor") {
  const served sink;
  metrics_record record = record_of(1, {});
  for (int i = 0; i < 2000; ++i)
    record.values.push_back({fmt::format("gap/grads/layer{}/max", i), 1. / i});
  sink.sink->write(record);
  http_client stuck(sink.address(), 4096);
  stuck.send("GET /metrics HTTP/1.1\r\n\r\n");
  REQUIRE(stuck.can_read(std::chrono::seconds(10)));
  for (int step = 2; step < 20; ++step) {
    record.source.step = step;
    sink.sink->write(record);
  }
  CHECK_THAT(get(sink.address(), "/metrics"),
             ContainsSubstring("\ntroupe_step 19\n"));
}

TEST_CASE("addresses of other machines need a token") {
  CHECK_THROWS_AS(prometheus_sink({.address = "0.0.0.0:0"}), error);
}

TEST_CASE("Prometheus itself scrapes it") {
  const std::string readers = "PATH=$PATH:" TROUPE_READERS "/bin ";
  if (run_program("bash -c '" + readers
                  + "command -v prometheus promtool' >/dev/null")
        .exit_code
      != 0)
    SKIP("no prometheus and promtool");
  const auto scraped = run_program(
    readers + TROUPE_SOURCE_DIR "/tests/monitors/sinks/scrape_prometheus.sh "
    + std::filesystem::read_symlink("/proc/self/exe").string());
  INFO(scraped.output);
  CHECK(scraped.exit_code == 0);
  CHECK_THAT(scraped.output,
             ContainsSubstring("no complaint")
               && ContainsSubstring("'__name__': 'troupe_loss'"));
}

// For scrape_prometheus.sh: prints the address, and serves until standard input
// ends.
TEST_CASE("serve", "[.serve]") {
  const served sink;
  auto record = record_of(7, {{"loss", 2.5},
                              {"spike/score", std::nan("")},
                              {"throughput/rank0/busy_seconds", .25},
                              {"gap/a \"b\"\\c\n\xc3\xa9/w/max", 1e300}});
  for (int i = 0; i < 500; ++i)
    record.values.push_back({fmt::format("gap/grads/layer{}/max", i), i * .1});
  sink.sink->write(record);
  sink.sink->write(alert_of(7, "stability", "a spike"));
  std::cout << sink.address() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
}
