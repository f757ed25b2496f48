// 16-bit parameters, which the optimizer updates through fp32 masters.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>
#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/stage/update/optimizer.hpp"

using namespace troupe;

namespace {

/// A matrix, a vector and a scalar with the same values in two dtypes.
struct two_models {
  parameter_list full, halves;

  two_models() {
    auto random = at::make_generator<at::CPUGeneratorImpl>(5);
    for (const auto& [name, shape] :
         std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
           {"matrix", {6, 4}}, {"vector", {5}}, {"scalar", {}}}) {
      const auto rounded = at::randn(shape, random).to(at::kBFloat16);
      halves.emplace_back(name, rounded.clone());
      full.emplace_back(name, rounded.to(at::kFloat));
    }
  }

  /// The same 16-bit gradients for both models; the vector has none in step 1.
  void give_gradients(std::int64_t step) {
    auto random =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<unsigned>(step));
    for (std::size_t i = 0; i < full.size(); ++i) {
      auto& of_full = full[i].second.mutable_grad();
      auto& of_half = halves[i].second.mutable_grad();
      of_half = at::randn(full[i].second.sizes(), random).to(at::kBFloat16);
      of_full = of_half.to(at::kFloat);
      if (full[i].first == "vector" && step == 1) {
        of_full.reset();
        of_half.reset();
      }
    }
  }
};

}  // namespace

TEST_CASE("parameters of 16 bits are updated by way of fp32 masters") {
  for (const optimizer_options& options :
       {optimizer_options{sgd{.learning_rate = 0.1, .momentum = 0.9}},
        optimizer_options{sgd{.learning_rate = 0.1}},
        optimizer_options{adamw{.learning_rate = 1e-2}},
        optimizer_options{lion{.learning_rate = 1e-2}},
        optimizer_options{adafactor{}}, optimizer_options{muon{}}}) {
    CAPTURE(options.index());
    two_models models;
    optimizer reference(options, models.full), own(options, models.halves);
    for (std::int64_t step = 0; step < 4; ++step) {
      models.give_gradients(step);
      reference.step(1e-2);
      own.step(1e-2);
    }
    const auto state = own.state();
    for (std::size_t i = 0; i < state.size(); ++i) {
      const auto& value = models.full[i].second;
      REQUIRE(!state[i].tensors.empty());
      CHECK(state[i].tensors.back().first == "master");
      CHECK(state[i].tensors.back().second.equal(value));
      CHECK(models.halves[i].second.equal(value.to(at::kBFloat16)));
    }
  }
}

TEST_CASE("a state goes into 16 bits and out, with masters and without") {
  two_models models;
  optimizer full(adamw{}, models.full), halves(adamw{}, models.halves);
  models.give_gradients(0);
  full.step(1e-2);
  halves.step(1e-2);
  optimizer next(adamw{}, models.halves);
  next.load(full.state());  // the parameters become its masters
  CHECK(next.state()[0].tensors.back().second.equal(
    models.halves[0].second.to(at::kFloat)));
  next.load(halves.state());
  CHECK(next.state()[0].tensors.back().second.equal(
    halves.state()[0].tensors.back().second));
  optimizer back(adamw{}, models.full);
  back.load(halves.state());
  CHECK(back.state()[0].tensors.size() == full.state()[0].tensors.size());
}

TEST_CASE("masters take the values that parameters were given") {
  two_models models;
  optimizer halves(adamw{}, models.halves);
  models.give_gradients(0);
  halves.step(1e-2);
  models.halves[0].second.fill_(3);
  halves.read_parameters();
  CHECK(halves.state()[0].tensors.back().second.eq(3).all().item<bool>());
}
