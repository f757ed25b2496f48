#include "troupe/engine/stage/module/saved_tensors.hpp"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "troupe/base/error.hpp"
#include "troupe/engine/models/layers/layers.hpp"

using namespace troupe;

namespace {

struct saving_layers {
  at::Tensor first = at::rand({8, 8}).requires_grad_(true);
  at::Tensor second = at::rand({8, 8}).requires_grad_(true);

  at::Tensor loss(const at::Tensor& x) const {
    const auto hidden = at::tanh(x.mm(first.t()));
    return (at::softmax(hidden, 1) * hidden).mm(second).pow(2).sum();
  }
  tensor_list all() const { return {first, second}; }
};

tensor_list take_gradients(const saving_layers& of, const at::Tensor& x) {
  tensor_list gradients;
  for (const auto* each : {&of.first, &of.second, &x})
    gradients.push_back(std::exchange(each->mutable_grad(), {}).clone());
  return gradients;
}

void check_same_bits(const tensor_list& a, const tensor_list& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(at::equal(a[i], b.at(i)));
}

std::int64_t bytes_behind(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.storage().nbytes());
}

}  // namespace

TEST_CASE("a graph whose saved tensors were away gives the same gradients") {
  const saving_layers layer;
  const auto x = at::rand({4, 8}).requires_grad_(true);
  layer.loss(x).backward();
  const auto expected = take_gradients(layer, x);
  for (const int rounds : {0, 1, 2}) {
    const auto saved = std::make_shared<saved_tensors>(layer.all());
    at::Tensor loss;
    {
      const saved_tensors_scope scope(saved);
      loss = layer.loss(x);
    }
    for (int i = 0; i < rounds; ++i) {
      saved->to_host(nullptr);
      CHECK(saved->bytes_on_host() > 0);
      saved->to_device(nullptr);
      CHECK(saved->bytes_on_host() == 0);
    }
    loss.backward();
    check_same_bits(take_gradients(layer, x), expected);
  }
}

TEST_CASE("tensors that share memory are copied once, parameters never") {
  const saving_layers layer;
  const auto saved = std::make_shared<saved_tensors>(layer.all());
  const auto x = at::rand({4, 8});
  const auto whole = saved->keep(x), part = saved->keep(x.narrow(0, 1, 2));
  const auto weight = saved->keep(layer.first),
             view = saved->keep(layer.first.t());
  CHECK(weight.is_same(layer.first));
  saved->to_host(nullptr);
  CHECK(saved->bytes_on_host() == bytes_behind(x));
  CHECK(bytes_behind(whole) == 0);
  CHECK(bytes_behind(view) == bytes_behind(layer.first));
  CHECK(x.sum().item<float>() > 0);  // the memory of others is untouched
  saved->to_device(nullptr);
  CHECK(at::equal(whole, x));
  CHECK(at::equal(part, x.narrow(0, 1, 2)));
  CHECK(whole.storage().unsafeGetStorageImpl()
        == part.storage().unsafeGetStorageImpl());
}

TEST_CASE("what nothing refers to any more is not copied") {
  const auto saved = std::make_shared<saved_tensors>(tensor_list{});
  { const auto gone = saved->keep(at::ones({8})); }
  auto dropped = at::ones({8});
  saved->drop_later(dropped);
  saved->to_host(nullptr);
  CHECK(saved->bytes_on_host() == 0);
  CHECK(bytes_behind(dropped) == 0);
  CHECK(dropped.sizes() == at::IntArrayRef({8}));
}

TEST_CASE("layers that add to their weight's gradient find the weight") {
  linear_layer layer(8, 4);
  {
    const at::NoGradGuard no_grad;
    layer.weight.copy_(at::rand({4, 8}));
    layer.bias.copy_(at::rand({4}));
  }
  const auto x = at::rand({3, 8}).requires_grad_(true);
  layer.forward(x).pow(2).sum().backward();
  const tensor_list expected{
    std::exchange(layer.weight.mutable_grad(), {}).clone(),
    std::exchange(layer.bias.mutable_grad(), {}).clone()};
  const auto saved =
    std::make_shared<saved_tensors>(tensor_list{layer.weight, layer.bias});
  at::Tensor loss;
  {
    const saved_tensors_scope scope(saved);
    loss = layer.forward(x).pow(2).sum();
  }
  saved->to_host(nullptr);
  saved->to_device(nullptr);
  loss.backward();
  check_same_bits({layer.weight.grad(), layer.bias.grad()}, expected);
}

TEST_CASE("a saved tensor that was changed in place is an error") {
  const auto saved = std::make_shared<saved_tensors>(tensor_list{});
  const auto x = at::rand({4}).requires_grad_(true);
  at::Tensor output, loss;
  {
    const saved_tensors_scope scope(saved);
    output = at::tanh(x);
    loss = output.sum();
  }
  {
    const at::NoGradGuard no_grad;
    output.add_(1);
  }
  CHECK_THROWS_MATCHES(
    loss.backward(), error,
    Catch::Matchers::Message("a tensor that a forward has saved for its "
                             "backward was changed in place meanwhile"));
}

TEST_CASE("without a scope graphs save as LibTorch does") {
  const auto saved = std::make_shared<saved_tensors>(tensor_list{});
  const auto x = at::rand({4}).requires_grad_(true);
  const auto loss = at::tanh(x).sum();
  saved->to_host(nullptr);
  CHECK(saved->bytes_on_host() == 0);
  loss.backward();
  CHECK(x.grad().defined());
}
