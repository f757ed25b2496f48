#include "troupe/engine/device/rank_device.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>

#include "silent_accelerator.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("the host waits when it is too far ahead of the device") {
  rank_device rank(std::make_shared<silent_accelerator>(), {}, 2);
  std::vector<std::shared_ptr<slow_event>> ends;
  for (int i = 0; i < 5; ++i) {
    ends.push_back(std::make_shared<slow_event>());
    rank.launched(ends.back());
  }
  for (int i = 0; i < 5; ++i)
    CHECK(ends[static_cast<std::size_t>(i)]->waits == (i < 3 ? 1 : 0));
  ends[3]->done = ends[4]->done = true;  // the device has caught up
  for (int i = 0; i < 2; ++i)
    rank.launched(std::make_shared<slow_event>());
  CHECK(ends[3]->waits + ends[4]->waits == 0);
}

TEST_CASE("work that may not overlap shares the compute stream") {
  const auto device = std::make_shared<silent_accelerator>();
  rank_device apart(device, {});
  CHECK(device->streams == 4);
  CHECK(&apart.data() != &apart.compute());
  CHECK(&apart.sends() != &apart.receives());
  rank_device together(device, {false, false, false, false});
  CHECK(device->streams == 5);
  for (auto* stream :
       {&together.data(), &together.sends(), &together.receives()})
    CHECK(stream == &together.compute());
}

TEST_CASE("a rank's second compute stream shares all else with the first") {
  const auto device = std::make_shared<silent_accelerator>();
  rank_device first(device, {}, 2);
  const auto second = first.beside();
  CHECK(device->streams == 5);
  CHECK(&second->compute() == &first.beside()->compute());
  CHECK(device->streams == 5);
  CHECK(&second->compute() != &first.compute());
  CHECK(&second->data() == &first.data());
  CHECK(&second->receives() == &first.receives());
  first.begin_step(1);
  const slow_event later;
  const auto time = first.host_ns(later);
  second->begin_step(1);
  CHECK(second->host_ns(later) == time);
  std::vector<std::shared_ptr<slow_event>> ends;
  for (int i = 0; i < 4; ++i) {
    ends.push_back(std::make_shared<slow_event>());
    (i % 2 == 0 ? first : *second).launched(ends.back());
  }
  CHECK(ends[1]->waits == 1);
  CHECK(ends[2]->waits + ends[3]->waits == 0);
}

TEST_CASE("without overlap a stage's other work shares its own stream") {
  rank_device first(std::make_shared<silent_accelerator>(),
                    {false, false, false, true});
  const auto second = first.beside();
  for (auto* stream : {&second->data(), &second->sends(), &second->receives()})
    CHECK(stream == &second->compute());
}

TEST_CASE("a join lets the two compute streams wait for each other") {
  rank_device rank(std::make_shared<silent_accelerator>(), {});
  auto& first = dynamic_cast<silent_stream&>(rank.compute());
  rank.join();
  CHECK(first.waited_for.empty());
  CHECK(first.recorded == nullptr);
  auto& second = dynamic_cast<silent_stream&>(rank.beside()->compute());
  rank.join();
  using events = std::vector<const device_event*>;
  CHECK(first.waited_for == events{second.recorded.get()});
  CHECK(second.waited_for == events{first.recorded.get()});
  const slow_event other;
  rank.wait_for(other);
  CHECK(first.waited_for.back() == &other);
  CHECK(second.waited_for.back() == &other);
}

TEST_CASE("the device's times are given by the host's clock") {
  rank_device rank(std::make_shared<silent_accelerator>(), {});
  rank.begin_step(1);
  const slow_event later;
  const auto time = rank.host_ns(later);
  CHECK(time == rank.host_ns(later));
  rank.begin_step(1);  // the same step
  CHECK(time == rank.host_ns(later));
  rank.begin_step(2);
  CHECK(rank.host_ns(later) > time);
}
