#include <ATen/ops/allclose.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>

#include "small_model.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// PyTorch's results from these initial weights (tests/golden).
struct golden {
  parameter_list initial;
  at::Tensor ids;     // int64 [steps, microbatches, rows, length + 1]
  at::Tensor losses;  // float64 [steps]
  at::Tensor final_head;
};

golden load_golden() {
  golden read;
  for (auto& [name, value] :
       read_safetensors(TROUPE_SOURCE_DIR "/tests/golden/gpt.safetensors")) {
    if (name == "ids")
      read.ids = value;
    else if (name == "losses")
      read.losses = value;
    else if (name == "final.head.weight")
      read.final_head = value;
    else
      read.initial.emplace_back(name, value);
  }
  return read;
}

double loss_at(const golden& expected, std::int64_t step) {
  return expected.losses.const_data_ptr<double>()[step];
}

}  // namespace

TEST_CASE("the plain loop gives the losses that PyTorch gives in Python") {
  const auto expected = load_golden();
  plain_options options;
  options.microbatches = 4;
  options.numerics.optimizer = adamw{.learning_rate = 1e-2};
  options.numerics.clip = 0.5;
  plain_loop loop(gpt(small_gpt(2)), options);
  load_parameters(loop.parameters(), expected.initial, "golden");
  const auto source = rows_of(expected.ids);
  for (std::int64_t step = 0; step < expected.losses.numel(); ++step) {
    const auto loss =
      loop.step([&](std::int64_t k) { return source->at(step * 4 + k); }).loss;
    CHECK(std::abs(loss - loss_at(expected, step)) < 1e-5);
  }
  const auto parameters = loop.parameters();
  const auto found = std::ranges::find(parameters, "head.weight",
                                       &parameter_list::value_type::first);
  CHECK(at::allclose(found->second, expected.final_head, 1e-4, 1e-5));
}

TEST_CASE("a pipeline of two stages gives PyTorch's losses too") {
  const auto expected = load_golden();
  small_case what{.clip = 0.5};
  trainer run(gpt(small_gpt(2)), options_for(what));
  run.load(expected.initial, "golden");
  const auto source = rows_of(expected.ids);
  for (std::int64_t step = 0; step < expected.losses.numel(); ++step)
    CHECK(std::abs(run.step(source).summary.losses[0].value
                   - loss_at(expected, step))
          < 1e-5);
}
