#include "faked_graph.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>

#include "faked_accelerator.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Two streams of a device, and memory that the first one allocated.
struct two_streams {
  two_streams() {
    const auto scope = a->enter();
    value = at::ones({4});
  }
  template <class Work>
  std::unique_ptr<device_graph> record(const Work& work) {
    return device.record_graph(*a, [&] {
      const auto scope = a->enter();
      work();
    });
  }
  template <class Work>
  void refused(const std::string& why, const Work& work) {
    CHECK_THROWS_MATCHES(record(work), std::exception,
                         MessageMatches(ContainsSubstring(why)));
    CHECK(recorded_with(1) == 0);
  }
  double first(const at::Tensor& of) {
    a->record()->wait();
    return of[0].item<double>();
  }

  faked_accelerator device;
  std::unique_ptr<device_stream> a =
    device.make_stream(stream_priority::normal);
  std::unique_ptr<device_stream> b =
    device.make_stream(stream_priority::normal);
  at::Tensor value;
};

}  // namespace

TEST_CASE("recorded work runs at each launch") {
  two_streams on;
  at::Tensor sum;
  auto graph = on.record([&] {
    sum = on.value + 1;
    on.value.mul_(2);
    sum.add_(on.value);
  });
  CHECK(on.first(on.value) == 1);
  CHECK(std::isnan(on.first(sum)));
  graph->launch(*on.a);
  CHECK(on.first(on.value) == 2);
  CHECK(on.first(sum) == 4);
  graph->launch(*on.a);
  CHECK(on.first(sum) == 7);
  CHECK(on.device.races() == std::vector<std::string>{});
  CHECK(on.device.recordings() == 1);
  CHECK(on.device.launches() == 2);
}

TEST_CASE("a recording spans the streams that it forks to and joins") {
  two_streams on;
  at::Tensor sum;
  const auto graph = on.record([&] {
    on.b->wait_for(*on.a->record());
    on.b->uses(on.value);
    const auto scope = on.b->enter();
    sum = on.value + 5;
    on.a->wait_for(*on.b->record());
  });
  graph->launch(*on.a);
  CHECK(on.first(sum) == 6);
  on.refused("was not joined", [&] {
    on.b->wait_for(*on.a->record());
    const auto scope = on.b->enter();
    on.value.add_(1);
  });
}

TEST_CASE("other streams and threads go on while one is recorded") {
  two_streams on;
  at::Tensor other;
  on.record([&] {
    const auto scope = on.b->enter();
    other = at::full({4}, 3.0);
  });
  on.b->record()->wait();
  CHECK(other[0].item<double>() == 3);
}

TEST_CASE("the rules of recording are held") {
  two_streams on;
  on.refused("wait for a value", [&] { on.value.sum().item<double>(); });
  on.refused("looks at a recorded", [&] { on.a->record()->wait(); });
  on.refused("looks at a recorded", [&] { on.a->record()->reached(); });
  const auto before = on.b->record();
  on.refused("waits for what is not", [&] { on.a->wait_for(*before); });
  const auto host = at::zeros({4});
  on.refused("memory of the host", [&] { on.value.copy_(host); });
  on.refused("no operator", [&] {
    on.device.kernels().norm_powers({on.value}, norm_type::two);
  });
  event_handle inside;
  on.record([&] { inside = on.a->record(); });
  CHECK_THROWS_MATCHES(on.b->wait_for(*inside), std::exception,
                       MessageMatches(ContainsSubstring("is over")));
  CHECK(on.first(on.value) == 1);  // unchanged, whatever failed
}

TEST_CASE("memory that a recording reads has to stay") {
  two_streams on;
  at::Tensor sum;
  const auto graph = on.record([&] { sum = on.value + 1; });
  on.value.reset();
  CHECK_THROWS_MATCHES(graph->launch(*on.a), std::exception,
                       MessageMatches(ContainsSubstring("is gone")));
}

TEST_CASE("tensors in a graph's memory go before it") {
  two_streams on;
  at::Tensor sum;
  for (const bool keeps_sum : {false, true}) {
    auto graph = on.record([&] { sum = on.value + 1; });
    if (!keeps_sum)
      sum.reset();
    graph.reset();
    CHECK(on.device.races().size() == (keeps_sum ? 1 : 0));
  }
}

TEST_CASE("a launch is work of its stream") {
  two_streams on;
  const auto graph = on.record([&] { on.value.add_(1); });
  graph->launch(*on.a);
  on.b->uses(on.value);
  const auto scope = on.b->enter();
  const auto sum = on.value + 1;
  REQUIRE(on.device.races().size() == 1);
  CHECK_THAT(on.device.races()[0], ContainsSubstring("what stream 1 writes"));
}
