#include "device_trainings.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "../schedules/shapes.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe::testing {

namespace {

constexpr int steps = 3;
constexpr std::int64_t evaluated = 4;

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.detach().cpu().clone();
}

/// The larger of two distances; nan is larger than any number.
double further(double a, double b) {
  return std::isnan(b) ? std::numeric_limits<double>::infinity()
                       : std::max(a, b);
}

double further(double a, const at::Tensor& x, const at::Tensor& y) {
  return further(a, (x - y).abs().max().item<double>());
}

}  // namespace

parameter_list on_host(const parameter_list& parameters) {
  parameter_list copies;
  for (const auto& [name, value] : parameters)
    copies.emplace_back(name, on_host(value));
  return copies;
}

training_outcome train(const small_case& what, const device_pointer& on,
                       const overlap_options& overlap) {
  auto options = options_for(what);
  if (on)
    options.devices = {on};
  options.overlap = overlap;
  trainer run(model_for(what), options);
  training_outcome done;
  for (int i = 0; i < steps; ++i) {
    auto report = run.step(small_text());
    done.losses.push_back(report.summary.losses.at(0).value);
    done.norms.push_back(report.summary.gradient_norm);
    done.ops.insert(done.ops.end(), report.ops.begin(), report.ops.end());
  }
  done.validation = run.evaluate(small_text(), evaluated).losses.at(0).value;
  run.check_replicas();
  done.parameters = on_host(run.parameters());
  done.outputs = run.infer(small_text()->at(0).inputs).at(0);
  CHECK(done.outputs.is_cpu());
  done.outputs = on_host(done.outputs);
  return done;
}

training_outcome train_plainly(const small_case& what,
                               const device_pointer& on) {
  auto options = plain_options_for(what);
  if (on)
    options.device = std::make_shared<rank_device>(on, overlap_options{});
  plain_loop loop(model_for(what), options);
  const auto text = small_text();
  const auto per_step = what.microbatches * what.data_parallel;
  training_outcome done;
  for (int i = 0; i < steps; ++i) {
    const auto result =
      loop.step([&](std::int64_t k) { return text->at(i * per_step + k); });
    done.losses.push_back(result.loss);
    done.norms.push_back(result.gradient_norm);
  }
  done.validation =
    loop.evaluate([&](std::int64_t k) { return text->at(k); }, evaluated).value;
  done.parameters = on_host(loop.parameters());
  done.outputs = loop.infer(text->at(0).inputs).at(0);
  CHECK(done.outputs.is_cpu());
  done.outputs = on_host(done.outputs);
  return done;
}

std::vector<small_case> trained_schedules() {
  std::vector<small_case> all;
  for (const auto& row : builtin_schedules()) {
    auto what = catalogue_case(row, small_shape(row));
    const auto lanes = make_schedule(what.schedule, shape_of(what));
    what.clip = lanes.update.every == 0 ? 0.5 : 0;
    if (is_training(lanes))
      all.push_back(what);
  }
  return all;
}

std::string different_bits(const training_outcome& a,
                           const training_outcome& b) {
  auto words = first_difference(a.parameters, b.parameters);
  if (words.empty())
    words =
      first_difference({{"outputs", a.outputs}}, {{"outputs", b.outputs}});
  if (words.empty() && a.norms != b.norms)
    words = "gradient norms differ";
  return words;
}

double distance(const training_outcome& a, const training_outcome& b) {
  auto most = further(0, std::abs(a.validation - b.validation));
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    most = further(most, std::abs(a.losses[i] - b.losses.at(i)));
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    most = further(most, a.parameters[i].second, b.parameters.at(i).second);
  return further(most, a.outputs, b.outputs);
}

void check_disturbed(const small_case& what, const device_pointer& on,
                     const device_disturbance& how) {
  INFO(describe(what));
  const auto calm = train(what, on);
  const auto device = std::make_shared<disturbed_accelerator>(on, how);
  const auto disturbed = train(what, device);
  CHECK(device->disturbed() > 20);
  CHECK(different_bits(calm, disturbed) == "");
  CHECK(calm.losses == disturbed.losses);
}

}  // namespace troupe::testing
