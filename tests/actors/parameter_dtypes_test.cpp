// 16-bit parameters, their masters, and the sums of their gradients.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <map>

#include "../temporary_folder.hpp"
#include "saved_run.hpp"
#include "small_model.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("parameters of 16 bits train the plain loop's bits, and learn") {
  for (auto what :
       {small_case{.schedule = "zb_v", .stages_per_rank = 2},
        small_case{.schedule = "interleaved_1f1b",
        .stages_per_rank = 2,
        .data_parallel = 2},
        small_case{.schedule = "dualpipe"},
        small_case{.schedule = "seq_1f1b", .slices = 2, .recompute = true},
        small_case{.data_parallel = 2,
        .division = {.before = 2, .in_fp32 = false}},
        small_case{.data_parallel = 4,
        .sharding = {.mode = shard_mode::all, .group = 2}},
        small_case{.data_parallel = 2,
        .sharding = {.mode = shard_mode::gradients}}}) {
    what.dtypes.parameters = at::kBFloat16;
    INFO(describe(what));
    CHECK(compare_with_plain(what, 3) == "");
  }
}

TEST_CASE("a run in 16 bits stays close to one in fp32") {
  small_case what{.use_sgd = true};
  what.dtypes.parameters = at::kBFloat16;
  trainer halves(model_for(what), options_for(what));
  what.dtypes = {};
  trainer whole(model_for(what), options_for(what));
  for (int i = 0; i < 10; ++i) {
    const auto own = halves.step(small_text()).summary.losses.at(0).value;
    const auto full = whole.step(small_text()).summary.losses.at(0).value;
    CHECK(own != full);
    CHECK(std::abs(own - full) < 0.05);
  }
  for (const auto& [name, value] : halves.parameters())
    CHECK(value.scalar_type() == at::kBFloat16);
}

TEST_CASE("gradients of replicas are divided as the options say") {
  small_case what{.data_parallel = 4,
                  .division = {.before = 4, .after = 2},
                  .sharding = {.mode = shard_mode::all}};
  CHECK(compare_with_plain(what, 2) == "");
  // Powers of two don't change the bits of the mean.
  auto other = what;
  other.division = {};
  what.division = balanced_division(4);
  trainer a(model_for(what), options_for(what));
  trainer b(model_for(other), options_for(other));
  a.step(small_text());
  b.step(small_text());
  CHECK(first_difference(a.parameters(), b.parameters()) == "");
}

TEST_CASE("a run in 16 bits is saved with its masters, and goes on in fp32") {
  const temporary_folder folder;
  const auto text = small_text();
  small_case halves;
  halves.dtypes.parameters = at::kBFloat16;
  trainer straight(model_for(halves), options_for(halves));
  trainer first(model_for(halves), options_for(halves));
  straight.step(text);
  straight.step(text);
  first.step(text);
  const stored_checkpoint saved(saved_run(first, folder / "halves"));
  trainer again(model_for(halves), options_for(halves));
  again.restore(saved);
  again.step(text);
  CHECK(first_difference(again.parameters(), straight.parameters()) == "");
  trainer in_full(model_for({}), options_for({}));
  in_full.restore(saved);
  for (const auto& [name, value] : in_full.parameters())
    CHECK(value.equal(saved.read("optimizer/master/" + name)));
  in_full.step(text);
  // The same in the other direction, with any shards.
  const stored_checkpoint whole(saved_run(in_full, folder / "full"));
  for (const auto mode :
       {shard_mode::replicate, shard_mode::gradients, shard_mode::all}) {
    CAPTURE(to_text(mode));
    auto shards = halves;
    shards.data_parallel = 2;
    shards.sharding.mode = mode;
    trainer back(model_for(shards), options_for(shards));
    back.restore(whole);
    std::map<std::string, at::Tensor> masters;
    for (const auto& [part, tensors] : back.snapshot())
      for (const auto& [name, value] : tensors)
        masters.emplace(name, value);
    for (const auto& [name, value] : back.parameters()) {
      CHECK(value.equal(whole.read(name).to(at::kBFloat16)));
      CHECK(masters.at("optimizer/master/" + name).equal(whole.read(name)));
    }
  }
}

TEST_CASE("values that are loaded replace the masters") {
  small_case what;
  what.dtypes.parameters = at::kBFloat16;
  if (GENERATE(false, true)) {
    what.data_parallel = 2;
    what.sharding.mode = shard_mode::all;
  }
  trainer run(model_for(what), options_for(what));
  parameter_list initial;
  for (const auto& [name, value] : run.parameters())
    initial.emplace_back(name, value.clone());
  run.step(small_text());
  run.step(small_text());
  run.load(initial, "test");
  for (const auto& [part, tensors] : run.snapshot())
    for (const auto& [name, value] : tensors)
      for (const auto& [own, first] : initial)
        if (name == "optimizer/master/" + own)
          CHECK(value.equal(first.to(at::kFloat)));
}
