#include <ATen/ops/add.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <future>
#include <map>
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

/// Same bits as on the CPU, and every dependency is an event.
void compare(const small_case& what, const overlap_options& overlap = {}) {
  INFO(describe(what));
  const auto on_cpu = train(what, nullptr);
  const auto device = std::make_shared<faked_accelerator>();
  const auto on_device = train(what, device, overlap);
  CHECK(different_bits(on_cpu, on_device) == "");
  CHECK(on_cpu.losses == on_device.losses);
  for (const auto& rank : on_device.ops)
    for (const auto& op : rank.ops) {
      CHECK(op.begin <= op.end);
      CHECK(op.host_begin <= op.host_end);
      if (op.host_begin > 0)  // a device was given it before it began
        CHECK(op.host_begin <= op.end);
    }
  CHECK(device->watched() > 1000);
  CHECK(device->races() == std::vector<std::string>{});
}

}  // namespace

TEST_CASE("work on streams without an event between is a race") {
  const faked_accelerator device;
  auto& on = const_cast<faked_accelerator&>(device);
  const auto a = on.make_stream(stream_priority::normal);
  const auto b = on.make_stream(stream_priority::normal);
  at::Tensor made;
  {
    const auto scope = a->enter();
    made = at::ones({4}) + 1;
  }
  SECTION("an event and a note") {
    b->wait_for(*a->record());
    b->uses(made);
    const auto scope = b->enter();
    made.add_(1);
    CHECK(device.races().empty());
  }
  SECTION("no event") {
    b->uses(made);
    const auto scope = b->enter();
    const auto sum = made + 1;
    REQUIRE(device.races().size() == 1);
    CHECK_THAT(device.races()[0], ContainsSubstring("what stream 1 writes"));
  }
  SECTION("no note") {
    b->wait_for(*a->record());
    const auto scope = b->enter();
    const auto sum = made + 1;
    REQUIRE(device.races().size() == 1);
    CHECK_THAT(device.races()[0], ContainsSubstring("was not told"));
  }
  SECTION("written while another reads") {
    b->wait_for(*a->record());
    b->uses(made);
    {
      const auto scope = b->enter();
      const auto sum = made + 1;
    }
    const auto scope = a->enter();
    made.add_(1);
    REQUIRE(device.races().size() == 1);
    CHECK_THAT(device.races()[0], ContainsSubstring("reads"));
  }
  SECTION("the host reads before it waited") {
    const auto copy = made.clone();
    REQUIRE_FALSE(device.races().empty());
    CHECK_THAT(device.races()[0], ContainsSubstring("what stream 1 writes"));
  }
  SECTION("the host waits") {
    const auto end = a->record();
    CHECK_FALSE(end->reached());
    end->wait();
    CHECK(end->reached());
    const auto copy = made.clone();
    CHECK(device.races().empty());
  }
}

TEST_CASE("memory made outside of streams belongs to no stream") {
  const auto device = std::make_shared<faked_accelerator>();
  const auto stream = device->make_stream(stream_priority::normal);
  const auto made = at::ones({4}) + 1;
  SECTION("it is copied") {
    const auto there = to_device(made, *stream);
    const auto scope = stream->enter();
    there.add_(1);
    CHECK(device->races() == std::vector<std::string>{});
  }
  SECTION("it is used") {
    const auto scope = stream->enter();
    made.add_(1);
    REQUIRE(device->races().size() == 1);
    CHECK_THAT(device->races()[0], ContainsSubstring("made outside of"));
  }
  SECTION("the host computes with what a stream made") {
    const auto there = to_device(made, *stream);
    stream->drain();
    const auto sum = there + 1;
    REQUIRE(device->races().size() == 1);
    CHECK_THAT(device->races()[0], ContainsSubstring("computes outside of"));
  }
}

TEST_CASE("a delay shows in the times of events behind it") {
  const auto device = std::make_shared<faked_accelerator>();
  const auto stream = device->make_stream(stream_priority::normal);
  const auto other = device->make_stream(stream_priority::normal);
  const auto begin = stream->record();
  delay(*device, *stream, 5);
  const auto end = stream->record();
  CHECK(other->record()->seconds_since(*begin) < 5);
  other->wait_for(*end);
  CHECK(other->record()->seconds_since(*begin) >= 5);
}

TEST_CASE("on a device the same bits, and events between all streams") {
  compare({.schedule = "1f1b", .ranks = 3, .microbatches = 4, .clip = 0.5});
  compare({.schedule = "gpipe", .ranks = 2, .recompute = true});
  compare({.schedule = "eager_1f1b", .ranks = 2, .use_sgd = true});
  compare({.schedule = "interleaved_1f1b",
           .ranks = 2,
           .stages_per_rank = 2,
           .data_parallel = 2,
           .clip = 0.5});
  compare({.schedule = "breadth_first",
           .ranks = 2,
           .stages_per_rank = 2,
           .data_parallel = 3});
}

TEST_CASE("each overlap can be switched off without changing a bit") {
  const small_case what{.ranks = 2, .data_parallel = 2, .clip = 0.5};
  for (int off = 0; off < 8; ++off)
    compare(what, {.data = (off & 1) == 0,
                   .reduce = (off & 2) == 0,
                   .transfers = (off & 4) == 0});
}

TEST_CASE("monitors see the same values on a device and on the CPU") {
  const auto seen_on = [](std::vector<std::shared_ptr<accelerator>> devices) {
    auto options = options_for({.ranks = 2, .microbatches = 2, .clip = 0.5});
    options.devices = std::move(devices);
    options.numerics.loss_scale.initial = 8;
    trainer training(model_for({.ranks = 2}), options);
    std::mutex mutex;
    std::map<std::string, tensor_statistics> seen;
    monitor watcher;
    watcher.name = "all";
    watcher.wants.tensors = static_cast<tensor_kind>(127);
    watcher.wants.needs = tensor_needs::statistics | tensor_needs::histogram;
    watcher.see = [&](const event& what) {
      const std::scoped_lock lock(mutex);
      if (const auto* op = std::get_if<tensors_event>(&what))
        for (const auto& record : op->tensors)
          seen[std::to_string(op->source.microbatch) + " " + record.owner->name
               + "/" + part_text(record) + std::to_string(op->backward)] =
            record.statistics;
    };
    training.attach(watcher);
    training.step(small_text());
    training.finish_monitors();
    return seen;
  };
  const auto on_cpu = seen_on({});
  const auto device = std::make_shared<faked_accelerator>();
  CHECK(on_cpu.size() > 100);
  CHECK((seen_on({device}) == on_cpu));
  CHECK(device->races() == std::vector<std::string>{});
}

namespace {

/// Multiplies by a matrix whose memory holds columns, not rows; LibTorch gives
/// its gradient the same layout.
struct by_columns final : stage_module {
  by_columns()
    : weight(register_parameter("weight", at::eye(small_gpt().width).t())) {}
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs[0].matmul(weight)};
  }
  at::Tensor weight;
};

/// A device for each process, links from device to device or by the host.
void compare_job(const small_case& what, std::int32_t processes,
                 bool device_links, const overlap_options& overlap = {}) {
  INFO(describe(what) << " in " << processes << " processes");
  const auto on_cpu = train(what, nullptr);
  const faked_accelerator watch;  // over those of all processes
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
    CHECK_THAT(error, ContainsSubstring("holds 2 of 4 replicas"));
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

/// What two processes say when the link between their devices ends in a step:
/// the first one sends on it after the first loss of the second one, which may
/// throw, but only when the first had time to see that.
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
