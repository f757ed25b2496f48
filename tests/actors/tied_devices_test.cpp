// Sums of tied gradients on devices.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../engine/transport/joined_meshes.hpp"
#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "troupe/engine/stage/split.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// The errors of two processes with a device each.
std::vector<std::string> refusals(const model& layers, bool device_links) {
  joined_meshes meshes(2);
  return in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto options = options_for({});
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    options.device_links = device_links;
    const trainer training(layers, options);
  });
}

}  // namespace

TEST_CASE("each schedule trains tied embeddings on a device, without a race") {
  const auto device = std::make_shared<faked_accelerator>();
  for (auto what : trained_schedules()) {
    what.tied = true;
    INFO(describe(what));
    CHECK(different_bits(train(what, device), train(what, nullptr)) == "");
  }
  CHECK(device->races() == std::vector<std::string>{});
}

TEST_CASE("tied gradients don't take the host between devices") {
  const auto layers = model_for({.tied = true});
  for (const auto& error : refusals(layers, false))
    CHECK_THAT(error,
               Catch::Matchers::ContainsSubstring("keep device_links on"));
  for (const auto& error : refusals(layers, true))
    CHECK(error == "");
}

TEST_CASE("three devices add tied gradients in the order of the plain loop") {
  const small_case what{.ranks = 3, .clip = 0.5};
  auto layers = model_for(what);
  for (const std::size_t block : {2, 3})
    layers[block].ties = {
      {"blocks." + std::to_string(block - 1) + ".mlp.up.weight",
       "blocks.0.mlp.up.weight"}};
  plain_loop oracle(layers, plain_options_for(what));
  for (int i = 0; i < 3; ++i)
    oracle.step([&](std::int64_t k) { return small_text()->at(4 * i + k); });
  joined_meshes meshes(3);
  parameter_list together;
  for (const auto& error :
       in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
         auto options = options_for(what);
         options.split = split_by_hand(5, {2, 1, 2});
         options.job = job;
         options.devices = {std::make_shared<faked_accelerator>()};
         trainer run(layers, options);
         for (int i = 0; i < 3; ++i)
           run.step(small_text());
         run.check_replicas();
         auto all = run.gather_parameters();
         if (job->place().leads())
           for (const auto& [name, value] : all)
             together.emplace_back(name, value.detach().clone());
       }))
    CHECK(error == "");
  CHECK(first_difference(together, oracle.parameters()) == "");
}

TEST_CASE("between devices all ties have to be of the same stages") {
  auto layers = model_for({.tied = true});
  layers[1].ties = {{"blocks.0.ln2.bias", "blocks.0.ln1.bias"}};
  for (const auto& error : refusals(layers, true))
    CHECK_THAT(error, Catch::Matchers::ContainsSubstring("between stages"));
}
