#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

#include "../device/silent_accelerator.hpp"
#include "troupe/engine/device/statistics_row.hpp"
#include "troupe/engine/events/interest.hpp"
#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;

namespace {

struct scaling : torch::nn::Module {
  scaling() { weight = register_parameter("weight", at::full({1}, 2.0)); }
  at::Tensor forward(const at::Tensor& x) { return x * weight; }
  at::Tensor weight;
};

interest_pointer interest_of(std::vector<subscription> wants) {
  return std::make_shared<const tensor_interest>(std::move(wants));
}

/// Counts and means alone.
struct row_kernels final : device_kernels {
  void measure(const tensor_list& tensors, const at::Tensor& rows) override {
    rows.zero_();
    for (std::size_t i = 0; i < tensors.size(); ++i)
      write(rows[static_cast<std::int64_t>(i)], troupe::measure(tensors[i]));
  }
  void measure_rows(const std::vector<tensor_rows>& tensors,
                    const at::Tensor& rows) override {
    rows.zero_();
    std::int64_t next = 0;
    for (const auto& [tensor, width, chosen] : tensors)
      for (const auto& each : troupe::measure_rows(tensor, width, chosen))
        write(rows[next++], each);
  }
  static void write(const at::Tensor& row, const tensor_statistics& what) {
    row[column_count] = what.count;
    row[column_mean] = what.mean;
  }
  at::Tensor norm_powers(const tensor_list&, norm_type) override { return {}; }
  void fill_mask(const at::Tensor&, const philox_stream&, std::uint32_t,
                 const at::Tensor&) override {}
  void delay(double) override {}
};

}  // namespace

TEST_CASE("a sample of rows is read where nobody wants more") {
  const subscription sample{.tensors = module_kinds, .sample = {0.1, 0}};
  const auto x = at::arange(40000.0).view({400, 100});
  const auto records_with = [&](std::vector<subscription> wants,
                                std::int64_t step = 1) {
    const auto module = std::make_shared<scaling>();
    std::vector<tensor_record> records;
    observer eyes({{module.get(), "first"}}, {}, [&](tensors_event event) {
      records = std::move(event.tensors);
    });
    eyes.begin_step(interest_of(std::move(wants)));
    event_source source;
    source.step = step;
    eyes.begin_op(source, observer::pass::forward, 1);
    {
      const observer_scope scope(&eyes);
      observe(module, x);
    }
    eyes.end_op();
    return records;
  };
  const auto alone = records_with({sample});
  REQUIRE(alone.size() == 3);
  CHECK_FALSE(alone[0].sample);  // the weight is small
  CHECK(alone[0].statistics.count == 1);
  REQUIRE(alone[2].sample);
  CHECK(alone[2].sample->count == 40000);
  CHECK(alone[2].sample->read == 4000);
  CHECK(alone[2].statistics == tensor_statistics{});

  CHECK(records_with({sample})[2].sample == alone[2].sample);
  CHECK(records_with({sample}, 2)[2].sample != alone[2].sample);
  auto other = sample;
  other.sample.seed = 1;
  CHECK(records_with({other})[2].sample != alone[2].sample);

  const auto with_extremes = records_with(
    {sample, {.tensors = module_kinds, .needs = tensor_needs::extremes}});
  CHECK(with_extremes[2].sample == alone[2].sample);
  CHECK(with_extremes[2].statistics == measure_extremes(x * 2));
  const auto with_others = records_with({sample, {.tensors = module_kinds}});
  CHECK_FALSE(with_others[2].sample);
  CHECK(with_others[2].statistics == measure(x * 2));
}

TEST_CASE("samples of gradients are without the loss scale") {
  auto weight = at::full({400, 100}, 1.0);
  weight.mutable_grad() = at::full({400, 100}, 8.0);
  std::vector<tensors_event> events;
  observer eyes({}, {{"weight", weight}},
                [&](tensors_event event) { events.push_back(event); });
  eyes.begin_step(
    interest_of({{.tensors = tensor_kind::gradient, .sample = {0.1, 0}}}));
  eyes.begin_op({}, observer::pass::update, 0);
  eyes.parameters(0.25);
  eyes.end_op();
  const auto& sample = events.at(0).tensors.at(0).sample;
  REQUIRE(sample);
  CHECK(sample->mean == estimate{2});
  CHECK(sample->max_abs == 2);
}

TEST_CASE("a device reads the sampled rows") {
  row_kernels kernels;
  const auto device = std::make_shared<testing::silent_accelerator>();
  device->own_kernels = &kernels;
  rank_device rank(device, {});
  const auto module = std::make_shared<scaling>();
  std::vector<tensors_event> events;
  observer eyes{
    {{module.get(), "first"}},
    {},
    [&](tensors_event event) { events.push_back(std::move(event)); },
    &rank};
  eyes.begin_step(
    interest_of({{.tensors = tensor_kind::activation, .sample = {0.1, 0}}}));
  for (const auto value : {1, 2, 3}) {
    eyes.begin_op({}, observer::pass::forward, 1);
    const observer_scope scope(&eyes);
    observe(module, at::full({4, 200, 50}, value));
    observe(module, at::full({100}, value));  // is read whole
    eyes.end_op();
  }
  eyes.flush();
  REQUIRE(events.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& records = events[i].tensors;
    const auto expected = 2.0 * double(i + 1);
    REQUIRE(records.size() == 2);
    REQUIRE(records[0].sample);
    CHECK(records[0].sample->read == 4 * 20 * 50);
    CHECK(records[0].sample->mean == estimate{4 * expected});
    CHECK_FALSE(records[1].sample);
    CHECK(records[1].statistics.mean == expected);
  }
}
