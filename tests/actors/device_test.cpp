#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>
#include <mutex>

#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "troupe/engine/events/monitor.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Checks that the bits equal the CPU's, and that events express every
/// dependency.
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
  at::Tensor source;
  {
    const auto scope = a->enter();
    source = at::ones({4}) + 1;
  }
  SECTION("an event and a note") {
    b->wait_for(*a->record());
    b->uses(source);
    const auto scope = b->enter();
    source.add_(1);
    CHECK(device.races().empty());
  }
  SECTION("no event") {
    b->uses(source);
    const auto scope = b->enter();
    const auto sum = source + 1;
    REQUIRE(device.races().size() == 1);
    CHECK_THAT(device.races()[0], ContainsSubstring("what stream 1 writes"));
  }
  SECTION("no note") {
    b->wait_for(*a->record());
    const auto scope = b->enter();
    const auto sum = source + 1;
    REQUIRE(device.races().size() == 1);
    CHECK_THAT(device.races()[0], ContainsSubstring("was not told"));
  }
  SECTION("written while another reads") {
    b->wait_for(*a->record());
    b->uses(source);
    {
      const auto scope = b->enter();
      const auto sum = source + 1;
    }
    const auto scope = a->enter();
    source.add_(1);
    REQUIRE(device.races().size() == 1);
    CHECK_THAT(device.races()[0], ContainsSubstring("reads"));
  }
  SECTION("the host reads before it waited") {
    const auto copy = source.clone();
    REQUIRE_FALSE(device.races().empty());
    CHECK_THAT(device.races()[0], ContainsSubstring("what stream 1 writes"));
  }
  SECTION("the host waits") {
    const auto end = a->record();
    CHECK_FALSE(end->reached());
    end->wait();
    CHECK(end->reached());
    const auto copy = source.clone();
    CHECK(device.races().empty());
  }
}

TEST_CASE("memory made outside of streams belongs to no stream") {
  const auto device = std::make_shared<faked_accelerator>();
  const auto stream = device->make_stream(stream_priority::normal);
  const auto outside = at::ones({4}) + 1;
  SECTION("it is copied") {
    const auto there = to_device(outside, *stream);
    const auto scope = stream->enter();
    there.add_(1);
    CHECK(device->races() == std::vector<std::string>{});
  }
  SECTION("it is used") {
    const auto scope = stream->enter();
    outside.add_(1);
    REQUIRE(device->races().size() == 1);
    CHECK_THAT(device->races()[0], ContainsSubstring("made outside of"));
  }
  SECTION("the host computes with what a stream made") {
    const auto there = to_device(outside, *stream);
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
  const bool sampled = GENERATE(false, true);
  const auto statistics_on =
    [sampled](std::vector<std::shared_ptr<accelerator>> devices) {
      auto options = options_for({.ranks = 2, .microbatches = 2, .clip = 0.5});
      options.devices = std::move(devices);
      options.numerics.loss_scale.initial = 8;
      trainer training(model_for({.ranks = 2}), options);
      std::mutex mutex;
      std::map<std::string, tensor_statistics> statistics;
      monitor watcher;
      watcher.name = "all";
      watcher.wants.tensors = static_cast<tensor_kind>(127);
      if (sampled)
        watcher.wants.sample.share = 0.1;
      else
        watcher.wants.needs =
          tensor_needs::statistics | tensor_needs::histogram;
      watcher.see = [&](const event& what) {
        const std::scoped_lock lock(mutex);
        if (const auto* op = std::get_if<tensors_event>(&what))
          for (const auto& record : op->tensors)
            statistics[std::to_string(op->source.microbatch) + " "
                       + record.owner->name + "/" + part_text(record)
                       + std::to_string(op->backward)] = record.statistics;
      };
      training.attach(watcher);
      training.step(small_text());
      training.finish_monitors();
      return statistics;
    };
  const auto on_cpu = statistics_on({});
  const auto device = std::make_shared<faked_accelerator>();
  CHECK(on_cpu.size() > 100);
  CHECK((statistics_on({device}) == on_cpu));
  CHECK(device->races() == std::vector<std::string>{});
}
