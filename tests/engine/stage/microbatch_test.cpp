#include "troupe/engine/stage/microbatch.hpp"

#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("each tensor of a microbatch is transformed in its place") {
  const auto number = [](double value) { return at::full({1}, value); };
  const microbatch_data data{
    {number(1), number(2)}, {number(3)}, {{"mask", number(4)}}, 7};
  const auto there =
    transformed(data, [](const at::Tensor& tensor) { return tensor * 10; });
  CHECK(there.inputs.size() == 2);
  CHECK(there.targets.size() == 1);
  CHECK(there.arguments.at("mask").item<double>() == 40);
  CHECK(there.tokens == 7);
  std::vector<double> all;
  for (const auto& tensor : tensors_of(there))
    all.push_back(tensor.item<double>());
  CHECK(all == std::vector<double>{10, 20, 30, 40});
}
