// Models whose layers are no chain, on devices: the CPU's bits, and no races.

#include <catch2/catch_test_macros.hpp>

#include "../../examples/stage_graphs/graph_models.hpp"
#include "../engine/transport/joined_meshes.hpp"
#include "faked_accelerator.hpp"
#include "graph_run.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr int steps = 3;

std::vector<graph_model> graph_models() {
  return {encoder_decoder(), u_net(), two_towers()};
}

trainer_options device_options(
  const graph_model& what, const small_case& how,
  const std::shared_ptr<faked_accelerator>& device) {
  auto options = options_for(how);
  options.numerics.loss = what.loss;
  if (device)
    options.devices = {device};
  return options;
}

parameter_list train_graph(const graph_model& what,
                           const trainer_options& options) {
  trainer run(what.layers, options);
  for (int i = 0; i < steps; ++i)
    run.step(what.data);
  run.check_replicas();
  return copies_of(run.parameters());
}

const std::vector<small_case> cases{
  {.ranks = 4, .clip = 0.5},
  {.schedule = "gpipe", .ranks = 3, .recompute = true},
  {.schedule = "interleaved_1f1b", .stages_per_rank = 2},
  {.ranks = 2, .data_parallel = 2, .clip = 0.5}};

}  // namespace

TEST_CASE("graphs of stages train the same bits on a device, or recorded") {
  for (const bool recorded : {false, true})
    for (const auto& what : graph_models())
      for (const auto& how : cases) {
        INFO(what.name << ' ' << describe(how) << " recorded " << recorded);
        const auto expected =
          train_graph(what, device_options(what, how, nullptr));
        const auto device = std::make_shared<faked_accelerator>();
        auto options = device_options(what, how, device);
        options.cuda_graphs = recorded;
        CHECK(first_difference(train_graph(what, options), expected) == "");
        CHECK(device->watched() > 100);
        CHECK(device->recordings() == (recorded ? 1 : 0));
        CHECK(device->launches() == (recorded ? steps - 1 : 0));
        CHECK(device->races() == std::vector<std::string>{});
      }
}

TEST_CASE("graphs of stages train the same bits from device to device") {
  const small_case how{.ranks = 4, .clip = 0.5};
  for (const auto& what : graph_models())
    for (const std::int32_t processes : {2, 4}) {
      INFO(what.name << " in " << processes << " processes");
      const auto expected =
        train_graph(what, device_options(what, how, nullptr));
      const faked_accelerator watch;  // watches all processes
      joined_meshes meshes(processes);
      parameter_list together;
      const auto errors = in_all(meshes, [&](const auto& job) {
        auto options =
          device_options(what, how, std::make_shared<faked_accelerator>());
        options.job = job;
        trainer run(what.layers, options);
        for (int i = 0; i < steps; ++i)
          run.step(what.data);
        if (auto all = run.gather_parameters(); job->place().leads())
          together = copies_of(all);
      });
      CHECK(errors == std::vector<std::string>(errors.size()));
      CHECK(first_difference(expected, together) == "");
      CHECK(watch.races() == std::vector<std::string>{});
    }
}
