#include "troupe/cli/train/train_memory.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::cli;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("bytes of parameters depend on their dtype and on what is trained") {
  struct row {
    parameter_footprint footprint;
    double bytes;
  };
  for (const auto& [footprint, bytes] : {
         row{{100, 100, at::kFloat}, 800},
         {{100, 100, at::kFloat, true, 3}, 2400},
         {{100, 100, at::kFloat, true, 1, 3}, 1600},
         {{100, 100, at::kBFloat16, true, 2, 3}, 3600},
         {{100, 0, at::kFloat}, 400},
         {{100, 10, at::kFloat}, 440},
         {{100, 100, at::kBFloat16}, 1000},
         {{100, 100, at::kBFloat16, false}, 800},
         {{100, 10, at::kBFloat16}, 280},
         {{100, 0, at::kHalf}, 200},
       }) {
    INFO(footprint.trained << " " << at::toString(footprint.dtype));
    CHECK(least_bytes(footprint) == bytes);
  }
}

TEST_CASE("frozen parameters and runs of no steps have no gradients") {
  built_model model;
  model.parameters = 100;
  model.frozen = 90;
  train_options options;
  CHECK(footprint_of(options, model).trained == 10);
  options.numerics.dtypes.parameters = at::kBFloat16;
  CHECK(footprint_of(options, model).dtype == at::kBFloat16);
  options.optimisation.optimizer.parameters = {"head.*:frozen"};
  CHECK(footprint_of(options, model).trained == 0);
  options.optimisation.optimizer.parameters.clear();
  options.steps = 0;
  CHECK(footprint_of(options, model).trained == 0);
}

TEST_CASE("only gradients are held for each replica of a plain loop") {
  built_model model;
  model.parameters = 100;
  train_options options;
  const auto bytes = [&] { return least_bytes(footprint_of(options, model)); };
  options.partition.data_parallel = 4;
  CHECK(bytes() == 4 * 800);
  options.partition.shard.mode = shard_mode::all;
  CHECK(bytes() == 800);
  options.plain = true;
  CHECK(bytes() == 400 + 4 * 400);
  options.steps = 0;
  CHECK(bytes() == 400);
}

TEST_CASE("only what lets a run need less memory is proposed") {
  train_options options;
  parameter_footprint footprint{.all = 100, .trained = 0};
  const auto ways = [&](model_source source) {
    return ways_to_need_less(options, footprint, source);
  };
  CHECK(ways(model_source::file) == "a smaller model or more machines");
  CHECK(ways(model_source::folder)
        == "--dtype bf16, a smaller model or more machines");
  CHECK(ways(model_source::flags)
        == "--dtype bf16, a smaller model, --vocabulary, --seq or more "
           "machines");
  footprint.trained = 100;  // more bytes in 16 bits, with masters of 32
  CHECK(ways(model_source::folder) == "a smaller model or more machines");
  footprint.replicas = 2;
  CHECK(ways(model_source::folder)
        == "a smaller model, --data-parallel or more machines");
  footprint = {.all = 100, .trained = 100, .gradients = 2};
  options.plain = true;
  CHECK(ways(model_source::folder) == "a smaller model or --data-parallel");
}

TEST_CASE("a container's limit of memory counts, and is told") {
  built_model model;
  model.parameters = 1 << 27;  // with gradients 1 GiB
  const train_options options;
  const auto require = [&](std::optional<std::int64_t> bytes) {
    require_memory(options, model, model_source::flags,
                   {.memory_bytes = bytes});
  };
  CHECK_NOTHROW(require({}));
  CHECK_NOTHROW(require(std::int64_t{1} << 30));
  CHECK_THROWS_MATCHES(require((std::int64_t{1} << 30) - 1), error,
                       MessageMatches(ContainsSubstring(
                         "need 1 GiB, and the control group (cgroup) of this "
                         "process allows 1; use a smaller model")));
}
