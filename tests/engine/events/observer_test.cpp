#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include <torch/csrc/autograd/variable.h>

#include "../device/silent_accelerator.hpp"
#include "troupe/engine/device/statistics_row.hpp"
#include "troupe/engine/events/interest.hpp"
#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;

namespace {

struct doubling : torch::nn::Module {
  doubling() { weight = register_parameter("weight", at::full({1}, 2.0)); }
  at::Tensor forward(const at::Tensor& x) { return x * weight; }
  at::Tensor weight;
};

struct several : torch::nn::Module {
  std::tuple<at::Tensor, std::optional<at::Tensor>, std::vector<at::Tensor>>
  forward(const at::Tensor& x, int) {
    return {x, std::nullopt, {x + 1, x + 2}};
  }
};

/// Returns its parameter itself, a leaf of the graph.
struct giving : torch::nn::Module {
  giving() { weight = register_parameter("weight", at::full({2}, 2.0)); }
  at::Tensor forward(int) { return weight; }
  at::Tensor weight;
};

constexpr auto everything = module_kinds | tensor_kind::parameter
                            | tensor_kind::gradient | tensor_kind::loss;

struct bench {
  std::shared_ptr<doubling> first = std::make_shared<doubling>();
  std::shared_ptr<doubling> second = std::make_shared<doubling>();
  std::shared_ptr<several> list = std::make_shared<several>();
  std::vector<tensors_event> events;
  observer eyes{
    {{first.get(), "first"}, {second.get(), "second"}, {list.get(), "list"}},
    {{"first.weight", first->weight}},
    [this](tensors_event event) { events.push_back(event); }};

  void begin(subscription wants,
             observer::pass pass = observer::pass::forward) {
    eyes.begin_step(std::make_shared<const tensor_interest>(
      std::vector<subscription>{std::move(wants)}));
    eyes.begin_op({}, pass, 1);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (const auto& event : events)
      for (const auto& record : event.tensors)
        all.push_back(record.owner->name + ' ' + part_text(record));
    return all;
  }
};

using strings = std::vector<std::string>;

}  // namespace

TEST_CASE("a module shows its weights, inputs and outputs, in causal order") {
  bench b;
  b.begin({.tensors = module_kinds});
  {
    const observer_scope scope(&b.eyes);
    observe(b.second, observe(b.first, at::ones({3})));
    observe(b.list, at::ones({3}), 4);
  }
  observe(b.first, at::ones({3}));  // outside of a step: nobody sees it
  b.eyes.end_op();
  CHECK(b.events.size() == 1);
  CHECK(b.lines()
        == strings{"first weight", "first input[0]", "first output",
                   "second weight", "second input[0]", "second output",
                   "list input[0]", "list input[1]", "list output[0]",
                   "list output[1]", "list output[2][0]", "list output[2][1]"});
  const auto& records = b.events[0].tensors;
  CHECK(records[2].owner->class_name == "doubling");
  CHECK(records[2].statistics.max_abs == 2);
  CHECK(records[4].statistics.max_abs == 2);
  CHECK(records[7].content == tensor_content::other);
  CHECK(records[9].content == tensor_content::nothing);
  CHECK_FALSE(records[2].tensor.defined());
}

TEST_CASE("a tensor without statistics fails no monitor") {
  bench b;
  b.begin({.tensors = tensor_kind::input,
           .needs = tensor_needs::statistics | tensor_needs::histogram});
  {
    const observer_scope scope(&b.eyes);
    observe(b.list, at::ones({3}, at::kComplexFloat), 4);
  }
  b.eyes.end_op();
  const auto& records = b.events.at(0).tensors;
  REQUIRE(records.size() == 2);
  CHECK(records[0].content == tensor_content::other);
  CHECK(records[0].dtype == at::kComplexFloat);
}

TEST_CASE("the same interest is not asked again for each module") {
  bench b;
  const auto interest = std::make_shared<const tensor_interest>(
    std::vector<subscription>{{.tensors = tensor_kind::input}});
  for (const auto& each :
       {interest, std::shared_ptr<const tensor_interest>{}, interest}) {
    b.eyes.begin_step(each);
    b.eyes.begin_op({}, observer::pass::forward, 1);
    {
      const observer_scope scope(&b.eyes);
      observe(b.first, at::ones({3}));
    }
    b.eyes.end_op();
  }
  CHECK(b.lines() == strings{"first input[0]", "first input[0]"});
}

TEST_CASE("bool and empty tensors are seen like others") {
  bench b;
  const auto needs = GENERATE(tensor_needs::statistics, tensor_needs::extremes,
                              tensor_needs::histogram, tensor_needs::handle);
  b.begin({.tensors = module_kinds, .needs = needs});
  {
    const observer_scope scope(&b.eyes);
    observe(b.list, at::ones({3, 2}) > 0, 4);
    observe(b.list, at::ones({0, 2}), 4);
    observe(b.list, at::ones({0, 2}, at::kBool), 4);
  }
  b.eyes.end_op();
  const auto& records = b.events.at(0).tensors;
  REQUIRE(records.size() == 18);
  for (const auto input : {0, 6, 12}) {
    const auto& record = records.at(static_cast<std::size_t>(input));
    CAPTURE(input, static_cast<int>(needs));
    CHECK(record.content == tensor_content::tensor);
    CHECK(record.dimensions == 2);
    CHECK(record.tensor.defined() == (needs == tensor_needs::handle));
    if (needs == tensor_needs::handle)
      continue;
    CHECK(record.statistics.count == (input == 0 ? 6 : 0));
    CHECK(record.statistics.max_abs == (input == 0 ? 1 : 0));
    CHECK(record.statistics.nans + record.statistics.infs == 0);
    CHECK(std::isfinite(record.statistics.mean));
    CHECK(std::isfinite(record.statistics.variance()));
  }
}

TEST_CASE("gradients of outputs arrive in the backward, once") {
  bench b;
  b.begin({.tensors = module_kinds,
           .needs = tensor_needs::handle,
           .names = "second"});
  at::Tensor loss;
  {
    const observer_scope scope(&b.eyes);
    loss = observe(b.second, observe(b.first, at::ones({3}))).sum();
  }
  b.eyes.end_op();
  b.eyes.begin_op({}, observer::pass::backward, 1);
  loss.backward();
  b.eyes.end_op();
  REQUIRE(b.events.size() == 2);
  CHECK_FALSE(b.events[0].backward);
  CHECK(b.events[1].backward);
  REQUIRE(b.events[1].tensors.size() == 1);
  CHECK(part_text(b.events[1].tensors[0]) == "gradient of output");
  CHECK(b.events[1].tensors[0].tensor.equal(at::ones({3})));
}

TEST_CASE("a forward that is run again shows its gradients alone") {
  bench b;
  b.begin({.tensors = module_kinds}, observer::pass::forward_again);
  at::Tensor loss;
  {
    const observer_scope scope(&b.eyes);
    loss = observe(b.first, at::ones({3})).sum();
    report_metric("a", 3);
  }
  b.eyes.begin_op({}, observer::pass::backward, 1);
  loss.backward();
  b.eyes.end_op();
  CHECK(b.lines() == strings{"first gradient of output"});
  CHECK(b.eyes.take_metrics().empty());
}

TEST_CASE("a tensor written in place is measured anew") {
  bench b;
  b.begin({.tensors = tensor_kind::input});
  {
    const observer_scope scope(&b.eyes);
    const at::NoGradGuard no_grad;
    auto x = at::ones({3});
    observe(b.first, x);
    x.fill_(5);
    observe(b.first, x);
  }
  b.eyes.end_op();
  CHECK(b.events.at(0).tensors.at(0).statistics.max_abs == 1);
  CHECK(b.events.at(0).tensors.at(1).statistics.max_abs == 5);
}

TEST_CASE("extremes are taken from full statistics, and not the reverse") {
  bench b;
  const auto observed = [&](tensor_needs of_input, tensor_needs of_activation) {
    b.events.clear();
    b.eyes.begin_step(std::make_shared<tensor_interest>(std::vector{
      subscription{.tensors = tensor_kind::input, .needs = of_input},
      subscription{.tensors = tensor_kind::activation,
                   .needs = of_activation}}));
    b.eyes.begin_op({}, observer::pass::forward, 1);
    {
      const observer_scope scope(&b.eyes);
      const at::NoGradGuard no_grad;
      observe(b.list, at::arange(4, at::kFloat), 4);
    }
    b.eyes.end_op();
    const auto& all = b.events.at(0).tensors;
    CHECK(all.at(0).statistics.max_abs == 3);
    CHECK(all.at(2).statistics.max_abs == 3);  // its output is its input
    return std::pair(all.at(0).statistics.mean, all.at(2).statistics.mean);
  };
  const auto some = tensor_needs::extremes, more = tensor_needs::statistics;
  CHECK(observed(some, some) == std::pair(0.0, 0.0));
  CHECK(observed(some, more) == std::pair(0.0, 1.5));
  CHECK(observed(more, some) == std::pair(1.5, 1.5));
}

TEST_CASE("parameters come with their gradients, unscaled, as copies") {
  bench b;
  b.begin({.tensors = tensor_kind::parameter | tensor_kind::gradient,
           .needs = tensor_needs::statistics | tensor_needs::handle},
          observer::pass::update);
  b.first->weight.mutable_grad() = at::full({1}, 8.0);
  b.eyes.parameters(0.25);
  b.eyes.end_op();
  b.first->weight.mutable_grad().zero_();
  REQUIRE(b.lines()
          == strings{"first.weight parameter", "first.weight gradient"});
  const auto& gradient = b.events[0].tensors[1];
  CHECK(gradient.statistics.max_abs == 2);
  CHECK(gradient.tensor.item<double>() == 2);
}

TEST_CASE("metrics are merged by the thread's observer") {
  bench b;
  b.begin({});
  const observer_scope scope(&b.eyes);
  report_metric("a", 3);
  report_metric("a", 5);
  CHECK(b.eyes.take_metrics().at(0).value == 4);
}

TEST_CASE("an output that is a parameter is followed in its own step alone") {
  const auto table = std::make_shared<giving>();
  std::vector<std::pair<std::int64_t, std::int32_t>> calls;
  observer eyes({{table.get(), "table"}}, {}, [&](tensors_event event) {
    for (const auto& record : event.tensors) {
      CHECK(part_text(record) == "gradient of output");
      CHECK(record.statistics.max_abs == event.source.microbatch + 1);
      calls.emplace_back(event.source.step, event.source.microbatch);
    }
  });
  const auto interest = std::make_shared<const tensor_interest>(
    std::vector<subscription>{{.tensors = tensor_kind::activation_gradient}});
  const auto at = [](std::int64_t step, std::int32_t microbatch) {
    event_source source;
    source.step = step;
    source.microbatch = microbatch;
    return source;
  };
  for (std::int64_t step = 1; step <= 40; ++step) {
    eyes.begin_step(step % 2 == 1 ? interest : nullptr);
    std::vector<at::Tensor> losses;
    for (std::int32_t k = 0; k < 2; ++k) {
      eyes.begin_op(at(step, k), observer::pass::forward, 1);
      const observer_scope scope(&eyes);
      losses.push_back((observe(table, 0) * (k + 1)).sum());
      const at::NoGradGuard no_grad;
      observe(table, 0);  // as a forward that is recomputed
      eyes.end_op();
    }
    for (std::int32_t k = 0; k < 2; ++k) {
      eyes.begin_op(at(step, k), observer::pass::backward, 1);
      losses[static_cast<std::size_t>(k)].backward();
      eyes.end_op();
    }
  }
  CHECK(calls.size() == 20 * 2);
  CHECK(std::ranges::count(calls, std::pair<std::int64_t, std::int32_t>{39, 1})
        == 1);
  const auto* meta = torch::autograd::impl::get_autograd_meta(table->weight);
  CHECK(meta->cpp_hooks_list_->size() == 1);
}

TEST_CASE("a followed parameter may outlive its observer") {
  const auto table = std::make_shared<giving>();
  auto loss = at::Tensor{};
  {
    observer eyes({{table.get(), "table"}}, {}, [](const tensors_event&) {});
    eyes.begin_step(std::make_shared<const tensor_interest>(
      std::vector<subscription>{{.tensors = module_kinds}}));
    eyes.begin_op({}, observer::pass::forward, 1);
    const observer_scope scope(&eyes);
    loss = observe(table, 0).sum();
    eyes.end_op();
  }
  loss.backward();
  CHECK(table->weight.grad().defined());
}

TEST_CASE("the same subscriptions are one interest, step after step") {
  kept_interest cache;
  const auto interest_in = [](const std::string& names) {
    return std::make_shared<const tensor_interest>(std::vector<subscription>{
      {.tensors = tensor_kind::input, .names = names}});
  };
  const auto first = cache.same_as(interest_in("*"));
  CHECK(cache.same_as(interest_in("*")) == first);
  CHECK(cache.same_as(nullptr) == nullptr);
  CHECK(cache.same_as(interest_in("*")) == first);
  const auto other = cache.same_as(interest_in("head"));
  CHECK(other != first);
  CHECK(other->subscriptions().at(0).names == "head");
}

namespace {

/// Writes each tensor's first value as its mean, and counts the launches.
struct noting_kernels final : device_kernels {
  void measure(const tensor_list& tensors, const at::Tensor& rows) override {
    launches.push_back(tensors.size());
    rows.zero_();
    for (std::size_t i = 0; i < tensors.size(); ++i)
      rows[static_cast<std::int64_t>(i)][column_mean] =
        tensors[i].flatten()[0].to(at::kDouble);
  }
  void measure_rows(const std::vector<tensor_rows>&,
                    const at::Tensor&) override {}
  at::Tensor norm_powers(const tensor_list&, norm_type) override { return {}; }
  void fill_mask(const at::Tensor&, const philox_stream&, std::uint32_t,
                 const at::Tensor&) override {}
  void delay(double) override {}
  std::vector<std::size_t> launches;
};

}  // namespace

TEST_CASE("a device's statistics hold little memory until they are launched") {
  noting_kernels kernels;
  const auto device = std::make_shared<testing::silent_accelerator>();
  device->own_kernels = &kernels;
  rank_device rank(device, {});
  const auto module = std::make_shared<doubling>();
  std::vector<tensors_event> events;
  observer eyes{
    {{module.get(), "first"}},
    {},
    [&](tensors_event event) { events.push_back(std::move(event)); },
    &rank};
  eyes.begin_step(std::make_shared<const tensor_interest>(
    std::vector<subscription>{{.tensors = tensor_kind::activation}}));
  eyes.begin_op({}, observer::pass::forward, 1);
  constexpr std::int64_t half = 8 << 20;  // 32 MiB of fp32
  {
    const observer_scope scope(&eyes);
    for (int i = 1; i <= 4; ++i)
      observe(module, at::full({half}, i));
  }
  CHECK(kernels.launches == std::vector<std::size_t>{3});
  eyes.end_op();
  CHECK(kernels.launches == std::vector<std::size_t>{3, 1});
  CHECK(events.empty());
  eyes.flush();
  REQUIRE(events.size() == 1);
  REQUIRE(events[0].tensors.size() == 4);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(events[0].tensors[i].statistics.mean == 2.0 * double(i + 1));
}
