#include "troupe/monitors/metrics.hpp"

#include <fmt/format.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "recording_sink.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;

TEST_CASE("a step's outcome is metrics of its phase") {
  const auto sink = std::make_shared<recording_sink>();
  trainer run(model_g(), options_g(2, 2));
  run.attach(step_metrics_monitor(sink));
  run.step(source_g(2), true);
  run.evaluate(source_g(2), 2);
  run.finish_monitors();
  REQUIRE(sink->steps.size() == 1);
  const auto& values = sink->steps[1];
  CHECK(values.at("train/loss") == Approx(-6.75));
  CHECK(values.at("validation/loss") == Approx(-6.75));
  CHECK(values.at("train/grad_norm") > 0);
  CHECK(values.at("train/lr") > 0);
  CHECK(values.at("train/tokens_per_second") > 0);
  CHECK(values.at("train/memory_mib") > 0);
  CHECK(values.at("train/bubble") >= 0);
  CHECK(values.at("train/bubble") < 1);
  CHECK(values.size() == 7);
}

TEST_CASE("a step that generates has its rate of tokens") {
  const auto sink = std::make_shared<recording_sink>();
  const auto watch = step_metrics_monitor(sink);
  auto step = step_with(3, 1.5, 2);
  step.source.phase = phase::inference;
  step.losses.clear();
  step.tokens = 50;
  watch.see(step);
  CHECK(sink->steps[3].size() == 1);
  CHECK(sink->steps[3].at("inference/tokens_per_second") == Approx(50));
}

TEST_CASE("without ops there is no bubble to tell") {
  const auto sink = std::make_shared<recording_sink>();
  const auto watch = step_metrics_monitor(sink);
  auto step = step_with(3, 1.5, 2);
  step.metrics = {{"accuracy", 0.25, 4}};
  step.tokens = 50;
  watch.see(step);
  const auto& values = sink->steps[3];
  CHECK(values.at("train/loss") == 1.5);
  CHECK(values.at("train/accuracy") == 0.25);
  CHECK(values.at("train/grad_norm") == 2);
  CHECK(values.at("train/tokens_per_second") == Approx(50));
  CHECK_FALSE(values.contains("train/bubble"));
}

TEST_CASE("an epoch of a job that heals is metrics and a line of the log") {
  const epoch_event epoch{{.step = 7}, 3, 4, 0.25, 1 << 20};
  const auto sink = std::make_shared<recording_sink>();
  step_metrics_monitor(sink).see(epoch);
  const auto& values = sink->steps[7];
  CHECK(values.at("job/epoch") == 3);
  CHECK(values.at("job/processes") == 4);
  CHECK(values.at("job/epoch_seconds") == 0.25);
  CHECK(values.at("job/moved_bytes") == 1 << 20);
  CHECK(values.size() == 4);

  const temporary_folder folder;
  metrics_monitor(folder / "log").see(epoch);
  CHECK(content(folder / "log")
        == "{\"epoch\":3,\"after_step\":7,\"processes\":4,\"seconds\":0.25,"
           "\"moved_bytes\":1048576}\n");
}

TEST_CASE("outcomes that have no line in a log that goes on get one") {
  const temporary_folder folder;
  const auto log = folder / "log";
  const auto validation_of = [](std::int64_t step) {
    auto outcome = step_with(step, 2.5, 0);
    outcome.source.phase = phase::validation;
    return outcome;
  };
  {
    const auto before = metrics_monitor(log);
    for (const std::int64_t step : {1, 2, 3})
      before.see(step_with(step, 1.5, 2));
  }
  const auto after = metrics_monitor(log, 2,
                                     {step_with(1, 1.5, 2), validation_of(1),
                                      step_with(2, 1.5, 2), validation_of(2)});
  after.see(step_with(3, 1.5, 2));
  std::string lines;
  for (const auto* each : {"1 training", "2 training", "1 validation",
                           "2 validation", "3 training"})
    lines += each + std::string("\n");
  std::istringstream written(content(log));
  std::string seen;
  for (std::string line; std::getline(written, line);) {
    const auto all = nlohmann::json::parse(line);
    seen += fmt::format("{} {}\n", all["step"].get<int>(),
                        all["phase"].get<std::string>());
  }
  CHECK(seen == lines);
}
