#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/events/observe.hpp"

using namespace troupe;

namespace {

struct doubling : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x * 2; }
};

struct recorder final : observer {
  bool wants_tensors() const override { return wanted; }
  void tensor(const torch::nn::Module&, const at::Tensor&) override {
    ++tensors;
  }
  void metric(const std::string&, double value, double) override {
    sum += value;
  }
  bool wanted = true;
  int tensors = 0;
  double sum = 0;
};

event_source at_step(std::int64_t step) {
  event_source source;
  source.step = step;
  return source;
}

}  // namespace

TEST_CASE("a subscription covers what it asks for and no more") {
  subscription wants;
  const tensor_event mlp{at_step(10), "blocks.3.mlp.up", false, {}};
  CHECK_FALSE(wants.covers(mlp));
  wants.tensors = true;
  CHECK(wants.covers(mlp));
  wants.names = "blocks.*.mlp.*";
  CHECK(wants.covers(mlp));
  wants.names = "blocks.*.attn*";
  CHECK_FALSE(wants.covers(mlp));
  CHECK(wants.covers(step_event{}));
  wants.every = 10;
  CHECK(wants.covers(step_event{at_step(20)}));
  CHECK_FALSE(wants.covers(step_event{at_step(21)}));
  CHECK(wants.covers(failure_event{at_step(21), {}, {}}));
  CHECK_FALSE(wants.covers(ops_event{at_step(20), {}}));
}

TEST_CASE("observe publishes to the thread's observer, if it wants tensors") {
  auto module = std::make_shared<doubling>();
  const auto x = at::ones({2});
  recorder seen;
  CHECK(observe(module, x).sum().item<double>() == 4);
  {
    const observer_scope scope(&seen);
    observe(module, x);
    seen.wanted = false;
    observe(module, x);
    report_metric("a", 3);
  }
  observe(module, x);
  report_metric("a", 5);
  CHECK(seen.tensors == 1);
  CHECK(seen.sum == 3);
}

TEST_CASE("means of one name are merged by their counts") {
  std::vector<named_value> values;
  merge(values, {"a", 1, 1});
  merge(values, {"b", 7, 1});
  merge(values, {"a", 4, 2});
  REQUIRE(values.size() == 2);
  CHECK(values[0].value == 3);
  CHECK(values[0].count == 3);
}
