#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <limits>
#include <map>

#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"
#include "troupe/engine/stage/update/loss_scale.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using Catch::Approx;

namespace {

at::Tensor parameter(double value, double gradient) {
  auto p = at::full({3}, value).to(at::kFloat).requires_grad_(true);
  p.mutable_grad() = at::full({3}, gradient).to(at::kFloat);
  return p;
}

float first(const at::Tensor& tensor) {
  return tensor.detach().const_data_ptr<float>()[0];
}

}  // namespace

TEST_CASE("the gradient norm is that of all gradients together") {
  const auto type = GENERATE(norm_type::infinity, norm_type::one,
                             norm_type::two, norm_type::three);
  const auto a = at::rand({17, 5}).requires_grad_(true);
  const auto b = at::rand({3}, at::kDouble).requires_grad_(true);
  const auto unused = at::rand({2}).requires_grad_(true);
  const auto empty = at::rand({0}).requires_grad_(true);
  a.mutable_grad() = (at::rand({5, 17}) - 0.5).t();
  b.mutable_grad() = at::rand({3}, at::kDouble);
  empty.mutable_grad() = at::rand({0});
  const auto powers = gradient_powers({a, b, unused, empty}, type);
  REQUIRE(powers.size() == 4);
  CHECK(powers[2] == 0);
  CHECK(powers[3] == 0);
  const auto all =
    at::cat({a.grad().to(at::kDouble).reshape(-1), b.grad()}).abs();
  const auto p = static_cast<double>(type);
  const auto expected = type == norm_type::infinity
                          ? all.max().item<double>()
                          : std::pow(all.pow(p).sum().item<double>(), 1 / p);
  CHECK(norm_of(powers, type) == Approx(expected).epsilon(1e-12));
  CHECK(norm_of({}, type) == 0);
  CHECK(norm_of({0, 0}, type) == 0);
}

TEST_CASE("a NaN among the gradients is the norm, whatever is behind it") {
  for (const auto type :
       {norm_type::infinity, norm_type::one, norm_type::two, norm_type::three})
    for (const auto place : {0, 5, 20}) {
      auto p = at::zeros({21}).requires_grad_(true);
      p.mutable_grad() = at::ones({21});
      p.mutable_grad()[place] = std::nan("");
      p.mutable_grad()[10] = INFINITY;
      const auto powers = gradient_powers({p}, type);
      CHECK(std::isnan(norm_of({1, powers[0], INFINITY}, type)));
    }
}

namespace {

void check_clipping(const std::map<std::string, at::Tensor>& table,
                    const std::string& name, norm_type type, double odd) {
  const std::vector<std::string> names = {"matrix", "wide", "vector", "scalar",
                                          "cube"};
  tensor_list parameters;
  for (const auto& each : names) {
    parameters.push_back(table.at("initial." + each).clone());
    parameters.back().mutable_grad() = table.at("gradient." + each)[1].clone();
  }
  if (odd != 0)
    parameters[0].mutable_grad()[1][2] = odd;
  const auto norm = norm_of(gradient_powers(parameters, type), type);
  scale_gradients(parameters, clip_factor(norm, 0.5));
  INFO(name);
  CHECK(at::allclose(at::full({}, norm).to(at::kFloat),
                     table.at(name + ".norm"), 1e-6, 0, /*equal_nan=*/true));
  for (std::size_t i = 0; i < names.size(); ++i)
    CHECK(at::allclose(parameters[i].grad(), table.at(name + "." + names[i]),
                       1e-6, 1e-7, /*equal_nan=*/true));
}

}  // namespace

TEST_CASE("gradients are clipped as PyTorch's clip_grad_norm_ clips them") {
  std::map<std::string, at::Tensor> table;
  for (auto& [name, value] : read_safetensors(
         TROUPE_SOURCE_DIR "/tests/golden/optimizers.safetensors"))
    table.emplace(name, value);
  for (const auto& [p, type] : {std::pair{"1", norm_type::one},
                                {"2", norm_type::two},
                                {"3", norm_type::three},
                                {"inf", norm_type::infinity}}) {
    const auto name = std::string{"clip."} + p;
    check_clipping(table, name, type, 0);
    check_clipping(table, name + ".inf", type, INFINITY);
    check_clipping(table, name + ".nan", type, std::nan(""));
  }
}

TEST_CASE("clipping scales to the largest norm and no further") {
  CHECK(clip_factor(10, 0) == 1);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(10, 1) == Approx(0.1).epsilon(1e-6));
  CHECK(clip_factor(INFINITY, 1) == 0);
  CHECK(std::isnan(clip_factor(std::nan(""), 1)));
  CHECK(clip_factor(std::nan(""), 0) == 1);
  auto p = parameter(1, 2);
  scale_gradients({p}, 0.25);
  CHECK(first(p.grad()) == 0.5f);
}

TEST_CASE("a dynamic loss scale halves on an overflow and grows back") {
  const auto note = [](loss_scale& scale, bool finite) {
    scale.note(finite, finite);
  };
  loss_scale scale({1024, true, 2});
  note(scale, false);
  CHECK(scale.value() == 512);
  note(scale, true);
  CHECK(scale.value() == 512);
  note(scale, true);
  CHECK(scale.value() == 1024);
  loss_scale fixed({8, false, 1});
  note(fixed, false);
  CHECK(fixed.value() == 8);
  loss_scale largest({largest_loss_scale, true, 1});
  note(largest, true);
  CHECK(largest.value() == largest_loss_scale);
  largest.restore({.value = 1e308});
  CHECK(largest.value() == largest_loss_scale);
}

TEST_CASE("a loss scale begins where peers' begin, and has a floor") {
  CHECK(loss_scale({.dynamic = true}).value() == 65536);
  CHECK(loss_scale({}).value() == 1);
  loss_scale scale({.initial = 4, .dynamic = true, .most_skipped = 3});
  for (const double expected : {2.0, 1.0, 1.0, 1.0}) {
    scale.note(false, false);
    CHECK(scale.value() == expected);
    CHECK(scale.skipped_in_vain() == 0);
  }
  scale.note(false, false);
  CHECK(scale.skipped_in_vain() == 3);
  scale.note(true, true);
  CHECK(scale.skipped_in_vain() == 0);
  // A scale that begins below the floor stays there.
  loss_scale tiny({.initial = 0.25, .dynamic = true});
  tiny.note(false, false);
  CHECK(tiny.value() == 0.25);
  loss_scale patient({.initial = 1, .dynamic = true, .most_skipped = 0});
  for (int i = 0; i < 50; ++i)
    patient.note(false, false);
  CHECK(patient.skipped_in_vain() == 0);
}

TEST_CASE("updates that were skipped are not counted for learning rates") {
  loss_scale scale({.dynamic = true});
  CHECK(scale.next_update(1) == 1);
  scale.note(false, false);
  scale.note(false, false);
  CHECK(scale.next_update(3) == 1);
  scale.note(true, true);
  CHECK(scale.next_update(4) == 2);
  loss_scale resumed({.dynamic = true});
  resumed.restore(scale.progress());
  CHECK(resumed.next_update(4) == 2);
}

TEST_CASE("learning rates warm up and decay") {
  using shape = learning_rate_schedule::shape;
  const learning_rate_schedule constant;
  CHECK(constant.at(1, 2.0) == 2.0);
  const learning_rate_schedule cosine{shape::cosine, 10, 110, 0.1};
  CHECK(cosine.at(1, 1.0) == Approx(0.1));
  CHECK(cosine.at(10, 1.0) == 1.0);
  CHECK(cosine.at(60, 1.0) == Approx(0.55));
  CHECK(cosine.at(110, 1.0) == Approx(0.1));
  CHECK(cosine.at(500, 1.0) == Approx(0.1));
  const learning_rate_schedule linear{shape::linear, 0, 100, 0.0};
  CHECK(linear.at(25, 4.0) == Approx(3.0));
  const learning_rate_schedule no_cooldown{shape::wsd, 0, 100, 0.0};
  CHECK(no_cooldown.at(100, 4.0) == 4.0);
  const learning_rate_schedule short_of_warmup{shape::cosine, 10, 5, 0.1};
  CHECK(short_of_warmup.at(10, 1.0) == 1.0);
  CHECK(short_of_warmup.at(11, 1.0) == Approx(0.1));
}

namespace {

/// The schedules of tests/golden/make_learning_rates.py.
std::map<std::string, learning_rate_schedule> golden_schedules() {
  using shape = learning_rate_schedule::shape;
  return {{"constant", {shape::constant, 30}},
          {"linear", {shape::linear, 30, 180, 0}},
          {"cosine", {shape::cosine, 30, 180, 0}},
          {"cosine_min", {shape::cosine, 0, 180, 0.1}},
          {"wsd", {shape::wsd, 30, 180, 0, 40}},
          {"wsd_min", {shape::wsd, 0, 180, 0.1, 40}},
          {"wsd_sqrt", {shape::wsd_sqrt, 30, 180, 0, 40}},
          {"wsd_sqrt_min", {shape::wsd_sqrt, 0, 180, 0.1, 40}}};
}

}  // namespace

TEST_CASE("learning rates are those of Transformers' schedulers") {
  const auto schedules = golden_schedules();
  const auto table = read_safetensors(
    TROUPE_SOURCE_DIR "/tests/golden/learning_rates.safetensors");
  CHECK(table.size() == schedules.size());
  for (const auto& [name, factors] : table) {
    CAPTURE(name);
    const auto* factor = factors.const_data_ptr<double>();
    // Transformers' cosine rises again after its end.
    const auto last =
      name.starts_with("cosine") ? std::int64_t{180} : factors.numel();
    double largest = 0;
    for (std::int64_t step = 1; step <= last; ++step)
      largest = std::max(
        largest, std::abs(schedules.at(name).at(step, 1) - factor[step - 1]));
    CHECK(largest < 1e-12);
  }
}
