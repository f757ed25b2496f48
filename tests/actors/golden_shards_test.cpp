// Replicas and shards compared with PyTorch's DDP and FSDP (tests/golden).
#include <ATen/ops/abs.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include "small_model.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t microbatches_of_step = 4;

class golden_table {
 public:
  golden_table() {
    for (auto& [name, value] : read_safetensors(
           TROUPE_SOURCE_DIR "/tests/golden/sharded.safetensors"))
      values_.emplace(name, value);
  }
  const at::Tensor& at(const std::string& name) const {
    return values_.at(name);
  }
  double number(const std::string& name, std::int64_t step) const {
    return at(name).const_data_ptr<double>()[step];
  }
  std::int64_t steps() const { return at("ids").size(0); }

  source_pointer source() const { return rows_of(at("ids")); }

 private:
  std::map<std::string, at::Tensor> values_;
};

const golden_table& shards_table() {
  static const golden_table read;
  return read;
}

double difference(double value, double expected) {
  return std::abs(value - expected) / std::abs(expected);
}

/// The largest differences to a case of the table: relative ones of losses and
/// norms, absolute ones of the parameters.
struct differences {
  double losses = 0, norms = 0, parameters = 0;
};

differences compare_golden(const std::string& name, small_case what) {
  what.microbatches =
    static_cast<std::int32_t>(microbatches_of_step) / what.data_parallel;
  what.clip = 0.5;
  what.optimizer = adamw{.learning_rate = 1e-2, .epsilon = 1e-4};
  trainer run(gpt(small_gpt(2)), options_for(what));
  parameter_list initial;
  for (const auto& [parameter, value] : run.gather_parameters())
    initial.emplace_back(parameter, shards_table().at(parameter));
  run.load(initial, "golden");
  const auto source = shards_table().source();
  differences most;
  for (std::int64_t step = 0; step < shards_table().steps(); ++step) {
    const auto summary_of_step = run.step(source).summary;
    most.losses = std::max(
      most.losses, difference(summary_of_step.losses[0].value,
                              shards_table().number(name + ".losses", step)));
    most.norms = std::max(
      most.norms, difference(summary_of_step.gradient_norm,
                             shards_table().number(name + ".norms", step)));
  }
  run.check_replicas();
  for (const auto& [parameter, value] : run.gather_parameters())
    most.parameters = std::max(
      most.parameters,
      at::abs(value.to(at::kFloat) - shards_table().at(name + "." + parameter))
        .max()
        .item<double>());
  return most;
}

void check_golden(const std::string& name, const small_case& what) {
  INFO(name << ": " << describe(what));
  const auto most = compare_golden(name, what);
  CAPTURE(most.losses, most.norms, most.parameters);
  CHECK(most.losses < 1e-6);
  CHECK(most.norms < 1e-5);
  CHECK(most.parameters < 1e-5);
}

/// Checks the case with one stage per rank, and with several in a V.
void check_shapes(const std::string& name, small_case what) {
  check_golden(name, what);
  what.schedule = "zb_v";
  what.stages_per_rank = 2;
  check_golden(name, what);
  what = {.ranks = 1,
          .data_parallel = what.data_parallel,
          .division = what.division,
          .sharding = what.sharding};
  check_golden(name, what);
}

small_case in_shards(std::int32_t data_parallel, sharding_options sharding,
                     gradient_division division = {}) {
  return {
    .data_parallel = data_parallel, .division = division, .sharding = sharding};
}

}  // namespace

TEST_CASE("replicas train as PyTorch's DDP") {
  check_shapes("ddp2", in_shards(2, {}));
  check_shapes("ddp4", in_shards(4, {}));
}

TEST_CASE("shards train as PyTorch's FSDP") {
  for (const auto mode : {shard_mode::gradients, shard_mode::all}) {
    check_shapes("fsdp2", in_shards(2, {.mode = mode, .most_whole = 1}));
    check_shapes("fsdp4", in_shards(4, {.mode = mode, .most_whole = 1}));
    check_shapes("fsdp2_whole", in_shards(2, {.mode = mode, .most_whole = 9}));
    check_shapes("fsdp4_whole", in_shards(4, {.mode = mode, .most_whole = 9}));
    check_shapes("hsdp4", in_shards(4, {.mode = mode, .group = 2}));
  }
}

TEST_CASE("divided gradients train as PyTorch's FSDP") {
  for (const auto mode : {shard_mode::gradients, shard_mode::all}) {
    check_shapes("fsdp2_sum",
                 in_shards(2, {.mode = mode}, {.before = 1, .after = 1}));
    check_shapes("fsdp4_divide",
                 in_shards(4, {.mode = mode}, {.before = 1, .after = 3}));
  }
}

TEST_CASE(
  "shards in bf16 train as PyTorch's FSDP, within that type's rounding") {
  auto what = in_shards(4, {.mode = shard_mode::all});
  what.dtypes.parameters = at::kBFloat16;
  const auto most = compare_golden("fsdp4_bf16", what);
  CAPTURE(most.losses, most.norms, most.parameters);
  CHECK(most.losses < 2e-2);
  CHECK(most.norms < 2e-2);
  CHECK(most.parameters < 2e-2);
}
