#include "troupe/monitors/sinks/prometheus_sink.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sstream>
#include <thread>

#include "records.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::string series_text(const std::string& metric,
                        phase phase = phase::training) {
  const auto series = prometheus_series_of(metric, phase);
  return series.name + series.labels;
}

}  // namespace

TEST_CASE("a metric's parts become a name and labels") {
  CHECK(series_text("loss") == "troupe_loss");
  CHECK(series_text("budget/share") == "troupe_budget_share");
  CHECK(series_text("throughput/rank0/busy_seconds")
        == "troupe_throughput_busy_seconds{name=\"rank0\"}");
  CHECK(series_text("gap/grads/fc.weight/max")
        == "troupe_gap_max{kind=\"grads\",name=\"fc.weight\"}");
  CHECK(series_text("a/b/c/d/e") == "troupe_a_e{kind=\"b/c\",name=\"d\"}");
  CHECK(series_text("my loss-2/\xc3\xa9") == "troupe_my_loss_2___");
  CHECK(series_text("a/\"\\\n\xff/b") == "troupe_a_b{name=\"\\\"\\\\\\n?\"}");
  CHECK(series_text("loss", phase::validation)
        == "troupe_loss{phase=\"validation\"}");
  CHECK(series_text("alerts/total") == "troupe_alerts_total_");
  CHECK(series_text("") == "troupe_");
}

TEST_CASE("the latest values are gauges, alerts are counted") {
  prometheus_table table;
  CHECK(table.text().empty());
  table.add(record_of(1, {{"loss", 3}, {"gap/grads/w/max", .5}}));
  table.add(record_of(2, {{"loss", 2.5},
                          {"gap/grads/v/max", -infinity},
                          {"gap/max", std::nan("")}}));
  table.add(alert_of(2, "overflow", "one"));
  table.add(alert_of(2, "gap", "two"));
  table.add(alert_of(3, "overflow", "three"));
  CHECK(table.text()
        == "# HELP troupe_gap_max The latest value.\n"
           "# TYPE troupe_gap_max gauge\n"
           "troupe_gap_max NaN\n"
           "troupe_gap_max{kind=\"grads\",name=\"v\"} -Inf\n"
           "troupe_gap_max{kind=\"grads\",name=\"w\"} 0.5\n"
           "# HELP troupe_loss The latest value.\n"
           "# TYPE troupe_loss gauge\n"
           "troupe_loss 2.5\n"
           "# HELP troupe_step The latest value.\n"
           "# TYPE troupe_step gauge\n"
           "troupe_step 2\n"
           "# HELP troupe_alerts_total Alerts of a monitor.\n"
           "# TYPE troupe_alerts_total counter\n"
           "troupe_alerts_total{monitor=\"gap\"} 1\n"
           "troupe_alerts_total{monitor=\"overflow\"} 2\n");
}

TEST_CASE("names that fall together are one series") {
  prometheus_table table;
  table.add(record_of(1, {{"a-b", 1}, {"a_b", 2}, {"a/b", 3}}));
  const auto text = table.text();
  CHECK(text.find("troupe_a_b 3\n") != std::string::npos);
  CHECK(text.find("troupe_a_b 1\n") == std::string::npos);
}

TEST_CASE("text can be made while others add") {
  prometheus_table table;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&table, t] {
      for (int i = 0; i < 200; ++i) {
        table.add(
          record_of(i, {{"a/" + std::to_string(i % 50 + t) + "/b", 1}}));
        table.add(alert_of(i, "m", "text"));
      }
    });
  for (int i = 0; i < 50; ++i) {
    std::istringstream lines(table.text());
    for (std::string line; std::getline(lines, line);)
      REQUIRE(line.starts_with(line[0] == '#' ? "# " : "troupe_"));
  }
  for (auto& thread : threads)
    thread.join();
  CHECK(table.text().ends_with("troupe_alerts_total{monitor=\"m\"} 600\n"));
}
