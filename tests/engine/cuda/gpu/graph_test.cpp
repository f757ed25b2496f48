#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include <thread>

#include "gpu.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;

namespace {

bool is_all(const at::Tensor& tensor, double value) {
  return at::equal(tensor.cpu(), at::full(tensor.sizes(), value));
}

}  // namespace

TEST_CASE("a graph runs when it is launched, on several streams") {
  const auto gpu = first_gpu();
  const auto origin = gpu->make_stream();
  const auto other = gpu->make_stream();
  at::Tensor x, sum, product;
  {
    const auto scope = origin->enter();
    x = at::full({1000}, 1.0, at::device(origin->device()));
  }
  const auto graph = gpu->record_graph(*origin, [&] {
    other->wait_for(*origin->record());
    other->uses(x);
    std::thread elsewhere([&] {
      const auto scope = other->enter();
      product = x * 10;
    });
    elsewhere.join();
    origin->wait_for(*other->record());
    const auto scope = origin->enter();
    x.add_(1);
    sum = x + product;
  });
  for (int launch = 1; launch <= 3; ++launch) {
    graph->launch(*origin);
    origin->drain();
    CHECK(is_all(x, launch + 1));
    CHECK(is_all(sum, 11 * launch + 1));
  }
}

TEST_CASE("the host goes on while a graph runs") {
  const auto gpu = first_gpu();
  const auto origin = gpu->make_stream();
  const auto graph =
    gpu->record_graph(*origin, [&] { delay(*gpu, *origin, 0.1); });
  graph->launch(*origin);
  const auto end = origin->record();
  CHECK_FALSE(end->reached());
  end->wait();
}

TEST_CASE("after a recording that failed all is as before") {
  const auto gpu = first_gpu();
  const auto origin = gpu->make_stream();
  const auto other = gpu->make_stream();
  const auto on_gpu = at::device(origin->device());
  const auto scope = origin->enter();
  auto x = at::full({1000}, 1.0, on_gpu);
  const auto fails = [&](const std::function<void()>& work) {
    CHECK_THROWS(gpu->record_graph(*origin, work));
    CHECK(is_all(x + at::full({1000}, 1.0, on_gpu), 2));
    CHECK(at::randn({1000}, on_gpu).cpu().std().item<double>() > 0.8);
    other->drain();
  };
  fails([&] { x.sum().item(); });
  fails([&] { throw std::runtime_error("no"); });
  fails([&] {
    at::randn({1000}, on_gpu);
    origin->record()->wait();
  });
  fails([&] {  // never joined
    other->wait_for(*origin->record());
    const auto inner = other->enter();
    x.mul(2);
  });
  at::Tensor twice;
  const auto graph = gpu->record_graph(*origin, [&] { twice = x * 2; });
  graph->launch(*origin);
  origin->drain();
  CHECK(is_all(twice, 2));
}

TEST_CASE("each launch draws other random numbers") {
  const auto gpu = first_gpu();
  const auto origin = gpu->make_stream();
  at::Tensor drawn;
  const auto graph = gpu->record_graph(*origin, [&] {
    const auto scope = origin->enter();
    drawn = at::randn({1000}, at::device(origin->device()));
  });
  graph->launch(*origin);
  origin->drain();
  const auto first = drawn.cpu();
  graph->launch(*origin);
  origin->drain();
  CHECK_FALSE(at::equal(first, drawn.cpu()));
}
