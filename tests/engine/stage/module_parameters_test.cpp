#include "troupe/engine/stage/parameters/module_parameters.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("what is loaded after a step that was given up is read by the next") {
  const auto weight = at::full({2}, 1.0).set_requires_grad(true);
  module_parameters parameters(
    {{"weight", weight}}, numerics{}, {}, nullptr, [] {}, true);
  step_settings settings;
  settings.learning_rate = 0.1;
  parameters.begin_step(settings);
  parameters.put_gradients({at::ones({2})}, {});
  parameters.update(1);
  CHECK_FALSE(at::equal(weight, at::full({2}, 1.0)));
  parameters.read_version(0, false);
  CHECK(at::equal(weight, at::full({2}, 1.0)));
  {
    const at::NoGradGuard no_grad;
    weight.fill_(7);
  }
  parameters.load_state(parameters.state());
  parameters.begin_step(settings);
  CHECK(at::equal(weight, at::full({2}, 7.0)));
}
