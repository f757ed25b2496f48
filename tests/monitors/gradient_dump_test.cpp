#include "troupe/monitors/tensors/gradient_dump.hpp"

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <iterator>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

void run_steps(const gradient_dump_options& options, int steps,
               std::int32_t data_parallel = 1,
               const sharding_options& sharding = {}) {
  auto training = options_g(2, 1, data_parallel);
  training.sharding = sharding;
  trainer run(model_g(), training);
  run.attach(gradient_dump_monitor(options));
  for (int i = 0; i < steps; ++i)
    run.step(source_g(data_parallel));
  run.finish_monitors();
}

}  // namespace

TEST_CASE("the first value of a gradient is a file of 76 known bytes") {
  const temporary_folder folder;
  run_steps({.folder = folder / "", .save_first_n = 1}, 1);
  const auto bytes =
    content(folder / "gradients/step1/sampled_gradients/fc.weight.safetensors");
  REQUIRE(bytes.size() == 76);
  CHECK(bytes[0] == 64);
  CHECK(bytes.substr(1, 7) == std::string(7, '\0'));
  CHECK(
    bytes.substr(8, 64)
    == R"({"gradient":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}} )");
  const float one = 1;
  CHECK(bytes.substr(72)
        == std::string(reinterpret_cast<const char*>(&one), sizeof one));
}

TEST_CASE("full gradients, a file a stage, in the steps asked for") {
  const temporary_folder folder;
  run_steps({.folder = folder / "", .start = 2, .end = 6, .every = 2}, 8, 2);
  const auto dumped = [&](int step) {
    return std::filesystem::exists(
      fmt::format("{}/gradients/step{}", folder / "", step));
  };
  for (const int step : {1, 3, 5, 7, 8})
    CHECK_FALSE(dumped(step));
  for (const int step : {2, 4, 6})
    CHECK(dumped(step));
  const auto stage0 = read_safetensors(
    folder / "gradients/step2/full_gradients/stage0.safetensors");
  REQUIRE(stage0.size() == 2);
  CHECK(stage0[0].first == "fc.bias");  // by name, however they are sharded
  CHECK(stage0[1].first == "fc.weight");
  CHECK(stage0[1].second.sizes() == at::IntArrayRef{2, 2});
  CHECK(read_safetensors(folder
                         / "gradients/step2/full_gradients/stage1.safetensors")
          .at(0)
          .first
        == "head.weight");
}

TEST_CASE("the dump of sharded gradients is that of whole ones") {
  const temporary_folder folder;
  sharding_options sharded{shard_mode::all};
  sharded.multiple = 32;  // fc's are in two shards
  run_steps({.folder = folder / "whole", .start = 1, .end = 1}, 1, 2);
  run_steps({.folder = folder / "shards", .start = 1, .end = 1}, 1, 2, sharded);
  for (const auto* stage : {"stage0", "stage1"}) {
    const auto path =
      fmt::format("gradients/step1/full_gradients/{}.safetensors", stage);
    CHECK(content(folder / ("shards/" + path))
          == content(folder / ("whole/" + path)));
  }
}

TEST_CASE("a dump that can't be meant is refused, naming the field") {
  const auto refused = [](const gradient_dump_options& options,
                          const char* field) {
    try {
      gradient_dump_monitor(options);
      FAIL(field);
    } catch (const error& reason) {
      CHECK_THAT(reason.what(), ContainsSubstring(field));
    }
  };
  refused({.start = -1}, "start");
  refused({.start = 5, .end = 4}, "end");
  refused({.every = 0}, "every");
  refused({.save_first_n = 0}, "save_first_n");
}
