#include "troupe/monitors/sinks/text_sinks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

#include "../../temporary_folder.hpp"
#include "records.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Removes the time, which must be present.
std::string without_time(const std::string& lines) {
  const std::regex time(R"("time":1[0-9]{9}\.?[0-9]*,)");
  CHECK(std::regex_search(lines, time));
  return std::regex_replace(lines, time, "");
}

}  // namespace

TEST_CASE("records and alerts are JSON lines, there when write returns") {
  const temporary_folder folder;
  const auto path = folder / "log";
  const auto sink = json_lines_sink(path);
  sink->write(record_of(1, {{"loss", 2.5}, {"gap/a/max", .1}}));
  CHECK(without_time(content(path))
        == R"({"step":1,"phase":"training","metrics":)"
           R"({"loss":2.5,"gap/a/max":0.1}})"
           "\n");
  sink->write(alert_of(2, "overflow", "a\nb\xff"));
  std::istringstream lines(content(path));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  CHECK(without_time(line)
        == R"({"step":2,"phase":"training","alert":"a\nb)"
           "\xef\xbf\xbd"
           R"(","monitor":"overflow"})");
}

TEST_CASE("what is not finite is a string, and the file stays JSON") {
  const temporary_folder folder;
  json_lines_sink(folder / "log")
    ->write(record_of(1, {{"a", quiet_nan}, {"b", infinity}, {"c", -infinity}},
                      phase::validation));
  CHECK(without_time(content(folder / "log"))
        == R"({"step":1,"phase":"validation","metrics":)"
           R"({"a":"NaN","b":"Infinity","c":"-Infinity"}})"
           "\n");
}

TEST_CASE("histograms tell their filled bins by exponent") {
  const temporary_folder folder;
  auto record = record_of(1, {});
  tensor_statistics statistics;
  statistics.zeros = 4;
  log2_histogram bins{};
  bins.at(147) = 2;
  bins.at(150) = 3;
  statistics.histogram = bins;
  record.histograms = {{"w", statistics}};
  json_lines_sink(folder / "log")->write(record);
  const auto line = nlohmann::json::parse(content(folder / "log"));
  CHECK(line["histograms"].dump()
        == R"({"w":{"bins":{"-3":2,"0":3},"zeros":4}})");
}

TEST_CASE("lines of several threads are whole, and a full disk is an error") {
  const temporary_folder folder;
  const auto sink = json_lines_sink(folder / "log");
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&sink] {
      for (int i = 0; i < 100; ++i)
        sink->write(record_of(i, {{"loss", i * .5}}));
    });
  for (auto& thread : threads)
    thread.join();
  std::istringstream lines(content(folder / "log"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    REQUIRE(nlohmann::json::parse(line)["metrics"].size() == 1);
  CHECK(count == 300);
  CHECK_THROWS_AS(json_lines_sink("/dev/full")->write(record_of(1, {})), error);
}
