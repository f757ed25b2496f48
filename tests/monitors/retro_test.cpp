#include "troupe/monitors/tensors/retro.hpp"
#include "troupe/engine/data/microbatch_source.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "recording_sink.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

source_pointer bad_in(std::int64_t batch) {
  return make_source([=](std::int64_t k) {
    auto rows = rows_g();
    if (k == batch)
      rows[0][0] = NAN;
    return microbatch_data{{rows}, {}, {}, 4};
  });
}

}  // namespace

TEST_CASE("when a rule fires the last steps and the tensors are written") {
  const temporary_folder folder;
  auto sink = std::make_shared<recording_sink>();
  trainer run(model_g(), options_g(2, 1));
  run.attach(retro_monitor(
    {.folder = folder / "", .steps = 2, .tensors = true, .dumps = 1}, sink));
  for (int step = 0; step < 6; ++step)
    run.step(bad_in(4), true);
  run.finish_monitors();
  REQUIRE(sink->alerts.size() == 1);
  CHECK_THAT(sink->alerts[0].text,
             Catch::Matchers::ContainsSubstring("output of fc"));
  std::ifstream lines(folder / "retro/step5.jsonl");
  std::map<int, int> by_step;
  for (std::string line; std::getline(lines, line);)
    ++by_step[nlohmann::json::parse(line).at("step").get<int>()];
  CHECK(by_step.size() == 3);  // two of the ring and the step itself
  CHECK(by_step.at(5) == 11);  // 2 outputs and gradients, 3 + 3, the loss
  const auto tensors = read_safetensors(folder / "retro/step5.safetensors");
  CHECK(tensors.size() == 11);
  CHECK(tensors[0].first == "fc/output@0");
  CHECK(std::isnan(tensors[0].second[0][0].item<double>()));
}

TEST_CASE(
  "what fired before events were dropped is kept, and blames no other") {
  const temporary_folder folder;
  auto sink = std::make_shared<recording_sink>();
  auto retro = retro_monitor({.folder = folder / ""}, sink);
  tensor_record bad;
  bad.owner =
    std::make_shared<const tensor_owner>(tensor_owner{"fc", "linear"});
  bad.statistics.nans = 1;
  retro.see(tensors_event{{.step = 3}, false, 1, {bad}});
  retro.see(dropped_event{{.step = 7}, 9});
  REQUIRE(sink->alerts.size() == 1);
  CHECK_THAT(sink->alerts[0].text, Catch::Matchers::StartsWith("step 3: "));
  retro.see(step_with(8, 1.0));
  CHECK(sink->alerts.size() == 1);
}

TEST_CASE("values and losses beyond their limits fire too") {
  const temporary_folder folder;
  auto sink = std::make_shared<recording_sink>();
  trainer run(model_g(), options_g(1, 1));
  run.attach(
    retro_monitor({.folder = folder / "", .max_abs = 28, .dumps = 1}, sink));
  run.step(source_g(1), true);
  run.finish_monitors();
  REQUIRE(sink->alerts.size() == 1);
  CHECK_THAT(sink->alerts[0].text,
             Catch::Matchers::ContainsSubstring("output of head"));
  auto loss = retro_monitor({.folder = folder / "", .loss_factor = 3}, sink);
  for (const double value : {1.0, 1.0, 2.5, 9.0})
    loss.see(step_with(static_cast<std::int64_t>(value), value));
  CHECK(sink->alerts.size() == 2);
  CHECK_THROWS_AS(retro_monitor({.steps = 0}, sink), error);
}
