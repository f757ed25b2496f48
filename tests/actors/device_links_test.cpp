// Links from device to device between processes.
#include <ATen/ops/eye.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <future>
#include <mutex>

#include "../engine/transport/joined_meshes.hpp"
#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "faked_communicator.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Multiplies by a matrix in column-major layout; LibTorch gives its gradient
/// the same layout.
struct by_columns final : stage_module {
  by_columns()
    : weight(register_parameter("weight", at::eye(small_gpt().width).t())) {}
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs[0].matmul(weight)};
  }
  at::Tensor weight;
};

/// With a device for each process, and links between devices or through the
/// host.
void compare_job(const small_case& what, std::int32_t processes,
                 bool device_links, const overlap_options& overlap = {}) {
  INFO(describe(what) << " in " << processes << " processes");
  const auto on_cpu = train(what, nullptr);
  const faked_accelerator watch;  // watches all processes
  joined_meshes meshes(processes);
  std::mutex mutex;
  parameter_list together;
  const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto options = options_for(what);
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    options.device_links = device_links;
    options.overlap = overlap;
    trainer training(model_for(what), options);
    for (int i = 0; i < 3; ++i)
      training.step(small_text());
    training.evaluate(small_text(), 4);
    training.check_replicas();
    auto all = training.gather_parameters();
    const std::scoped_lock lock(mutex);
    if (job->place().leads())
      together = on_host(all);
  });
  CHECK(errors == std::vector<std::string>(errors.size()));
  CHECK(first_difference(on_cpu.parameters, together) == "");
  CHECK(watch.races() == std::vector<std::string>{});
}

}  // namespace

TEST_CASE("devices of several processes train the same bits") {
  for (const bool device_links : {true, false}) {
    compare_job({.ranks = 2, .clip = 0.5}, 2, device_links);
    compare_job({.schedule = "gpipe", .ranks = 3}, 3, device_links);
    compare_job({.schedule = "interleaved_1f1b", .stages_per_rank = 2}, 2,
                device_links);
    compare_job({.schedule = "eager_1f1b", .ranks = 4, .microbatches = 8}, 2,
                device_links);
    compare_job({.schedule = "dualpipe_v", .stages_per_rank = 2}, 2,
                device_links);
  }
}

TEST_CASE("replicas on devices of several processes train the same bits") {
  compare_job({.data_parallel = 2, .clip = 0.5}, 2, true);
  compare_job({.data_parallel = 2, .clip = 0.5}, 4, true);
  compare_job({.schedule = "dualpipe", .clip = 0.5}, 2, true);
  compare_job({.schedule = "dualpipe", .data_parallel = 2}, 4, true);
  compare_job({.ranks = 1, .data_parallel = 3}, 3, true);
}

TEST_CASE("tied gradients are summed from device to device") {
  compare_job({.ranks = 2, .clip = 0.5, .tied = true}, 2, true);
  compare_job({.data_parallel = 2, .tied = true}, 4, true);
  compare_job({.data_parallel = 2, .tied = true}, 2, true);
  compare_job({.schedule = "dualpipe", .tied = true}, 2, true);
  compare_job({.schedule = "zb_v", .stages_per_rank = 2, .tied = true}, 2,
              true);
}

TEST_CASE("shards go from device to device") {
  using enum shard_mode;
  for (const auto mode : {gradients, all}) {
    const sharding_options sharding{.mode = mode};
    compare_job({.data_parallel = 2, .sharding = sharding}, 2, true);
    compare_job({.data_parallel = 2, .sharding = sharding}, 4, true);
    compare_job({.ranks = 1, .data_parallel = 3, .sharding = sharding}, 3,
                true);
    // Groups of shards that are not the group of the stage.
    compare_job(
      {.ranks = 1, .data_parallel = 4, .sharding = {.mode = mode, .group = 2}},
      4, true);
    compare_job(
      {.schedule = "dualpipe", .data_parallel = 2, .sharding = sharding}, 4,
      true);
    compare_job({.schedule = "zb_v",
                 .stages_per_rank = 2,
                 .data_parallel = 2,
                 .sharding = {.mode = mode, .most_whole = 1}},
                2, true);
    compare_job({.data_parallel = 2, .sharding = sharding, .tied = true}, 2,
                true);
  }
}

TEST_CASE("shards of tied gradients are summed from device to device") {
  using enum shard_mode;
  for (const auto mode : {gradients, all}) {
    small_case what{
      .data_parallel = 2, .sharding = {.mode = mode}, .tied = true};
    compare_job(what, 4, true);
    what.optimizer = adafactor{};  // one shard owns the tied matrix
    compare_job(what, 4, true);
    what.optimizer = adamw{};
    what.schedule = "dualpipe";
    compare_job(what, 4, true);
  }
}

TEST_CASE("shards of unequal size go from device to device") {
  using enum shard_mode;
  for (const auto mode : {gradients, all})
    for (const optimizer_options& optimizer :
         {optimizer_options{muon{}}, optimizer_options{adafactor{}}}) {
      small_case what{.ranks = 1,
                      .data_parallel = 3,
                      .optimizer = optimizer,
                      .sharding = {.mode = mode}};
      compare_job(what, 3, true);
      what.data_parallel = 4;
      what.sharding.group = 2;
      compare_job(what, 4, true);
    }
}

TEST_CASE("shards don't take the host between devices") {
  joined_meshes meshes(2);
  const faked_accelerator watch;
  const small_case what{.data_parallel = 2,
                        .sharding = {.mode = shard_mode::all}};
  const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto options = options_for(what);
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    options.device_links = false;
    const trainer training(model_for(what), options);
  });
  for (const auto& error : errors)
    CHECK_THAT(error, ContainsSubstring("keep device_links on"));
}

TEST_CASE("without overlap links keep streams of their own") {
  compare_job({.schedule = "interleaved_1f1b", .stages_per_rank = 2}, 2, true,
              {.data = false, .reduce = false, .transfers = false});
  compare_job({.schedule = "dualpipe_v", .stages_per_rank = 2}, 2, true,
              {.data = false, .reduce = false, .transfers = false});
}

TEST_CASE("gradients that are stored by columns are averaged on devices") {
  const small_case what{.ranks = 1, .data_parallel = 2};
  auto layers = model_for(what);
  layers.insert(layers.begin() + 1,
                {"by_columns", [] { return std::make_shared<by_columns>(); }});
  trainer on_cpu(layers, options_for(what));
  on_cpu.step(small_text());
  joined_meshes meshes(2);
  parameter_list together;
  const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto options = options_for(what);
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    trainer training(layers, options);
    training.step(small_text());
    training.check_replicas();
    if (const auto all = training.gather_parameters(); job->place().leads())
      together = on_host(all);
  });
  CHECK(first_difference(on_cpu.parameters(), together) == "");
  CHECK(errors == std::vector<std::string>(errors.size()));
}

TEST_CASE("several replicas of a process are refused on devices") {
  joined_meshes meshes(2);
  const faked_accelerator watch;
  const small_case what{.ranks = 1, .data_parallel = 4};
  const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto options = options_for(what);
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    const trainer training(model_for(what), options);
  });
  for (const auto& error : errors)
    CHECK_THAT(error, ContainsSubstring("hosts 2 of 4 replicas"));
}

TEST_CASE("a failure lets no device wait for another") {
  joined_meshes meshes(2);
  const faked_accelerator watch;
  const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    auto options = options_for({.ranks = 2});
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    int losses = 0;
    options.numerics.loss = [&losses, inner = options.numerics.loss](
                              const tensor_list& outputs,
                              const microbatch_data& data) {
      if (++losses == 3)
        throw std::runtime_error("a bad loss");
      return inner(outputs, data);
    };
    trainer training(model_for({.ranks = 2}), options);
    training.step(small_text());
  });
  for (const auto& error : errors)
    CHECK_THAT(error, ContainsSubstring("a bad loss"));
}

namespace {

/// The errors of two processes when the link between their devices ends during
/// a step. The first process sends on it after the first loss of the second
/// one, which may throw, but only when the first one had time to notice.
std::vector<std::string> errors_of_an_ended_link(bool throws) {
  joined_meshes meshes(2);
  const faked_accelerator watch;
  const small_case what{.schedule = "gpipe", .ranks = 2, .microbatches = 8};
  std::promise<void> link, leader;
  const auto link_ends = link.get_future().share();
  const auto leader_ends = leader.get_future();
  return in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    const bool leads = job->place().leads();
    auto options = options_for(what);
    options.job = job;
    options.devices = {std::make_shared<faked_accelerator>()};
    int losses = 0;
    options.numerics.loss = [&, inner = options.numerics.loss](
                              const tensor_list& outputs,
                              const microbatch_data& data) {
      if (++losses == 1) {
        end_faked_communicators("edge of replica 0 from stage 0 to 1");
        link.set_value();
        leader_ends.wait_for(std::chrono::milliseconds(100));
        if (throws)
          throw std::runtime_error("a bad loss");
      }
      return inner(outputs, data);
    };
    const auto text = make_source([&](std::int64_t index) {
      if (leads && index == 3)
        link_ends.wait_for(std::chrono::seconds(30));
      return small_text()->at(index);
    });
    trainer training(model_for(what), options);
    try {
      training.step(text);
    } catch (...) {
      if (leads)
        leader.set_value();
      throw;
    }
  });
}

}  // namespace

TEST_CASE("the cause of a link's end is reported, not the end itself") {
  for (const auto& error : errors_of_an_ended_link(true))
    CHECK_THAT(error, ContainsSubstring("a bad loss"));
}

TEST_CASE("a link that ended without a known cause is reported itself") {
  for (const auto& error : errors_of_an_ended_link(false))
    CHECK_THAT(error,
               ContainsSubstring("edge of replica 0 from stage 0 to 1 has"));
}
