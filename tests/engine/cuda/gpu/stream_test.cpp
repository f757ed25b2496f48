#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <string>
#include <thread>

#include "gpu.hpp"
#include "troupe/base/error.hpp"
#include "troupe/tests/engine/libtorch_warnings.hpp"

using namespace troupe;

TEST_CASE("a device tells what it is") {
  const auto gpu = first_gpu();
  const auto& description = gpu->description();
  CHECK(description.major >= 8);
  CHECK(describe(description).find(description.name) != std::string::npos);
  CHECK(gpu_library().versions().find("NCCL") != std::string::npos);
  CHECK_THROWS_AS(gpu_library().open(1000), error);
}

TEST_CASE("the host goes on while a stream works; events tell time") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream();
  delay(*gpu, *stream, 0);
  stream->drain();
  const auto begin = stream->record();
  delay(*gpu, *stream, 0.1);
  const auto end = stream->record();
  CHECK_FALSE(end->reached());
  end->wait();
  CHECK(begin->reached());
  CHECK(end->reached());
  CHECK(end->seconds_since(*begin) > 0.099);
  CHECK(end->seconds_since(*begin) < 0.5);
}

TEST_CASE("threads have a current context before they use cuBLAS") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream();
  std::string text;
  at::Tensor x;
  {
    const auto scope = stream->enter();
    x = at::ones({64, 64}, at::device(stream->device())).requires_grad_();
  }
  std::thread{[&] {
    const testing::libtorch_warnings warnings;
    const auto scope = stream->enter();
    // The backward's first node is a product, on LibTorch's thread.
    const auto y = x.mm(x);
    torch::autograd::grad({y}, {x}, {x.detach()});
    text = warnings.text();
  }}.join();
  stream->drain();
  CHECK(text == "");
}

TEST_CASE("a stream waits for another's event, the host for neither") {
  const auto gpu = first_gpu();
  const auto first = gpu->make_stream();
  const auto second = gpu->make_stream(stream_priority::high);
  at::Tensor x, y;
  {
    const auto scope = first->enter();
    x = at::zeros({1000}, at::device(first->device()));
    delay(*gpu, *first, 0.1);
    x.fill_(7);
  }
  const auto filled = first->record();
  second->wait_for(*filled);
  {
    const auto scope = second->enter();
    second->uses(x);
    y = x + 1;
  }
  CHECK_FALSE(filled->reached());
  second->drain();
  CHECK(filled->reached());
  CHECK(at::equal(y.cpu(), at::full({1000}, 8.0)));
}

TEST_CASE("more streams than LibTorch's pool has work beside each other") {
  const auto gpu = first_gpu();
  std::vector<std::unique_ptr<device_stream>> streams;
  for (int i = 0; i < 40; ++i)
    streams.push_back(gpu->make_stream());
  delay(*gpu, *streams[0], 0.2);
  const auto slow = streams[0]->record();
  for (std::size_t i = 32; i < streams.size(); ++i)
    streams[i]->drain();
  CHECK_FALSE(slow->reached());
  streams[0]->drain();
}

TEST_CASE("copies by way of locked memory leave the host alone") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream();
  const auto x = at::arange(3000).view({30, 100}).t();
  to_host(to_device(x, *stream), *stream).ready->wait();  // allocates
  delay(*gpu, *stream, 0.1);
  const auto there = to_device(x, *stream);
  const auto back = to_host(there, *stream);
  CHECK_FALSE(back.ready->reached());
  CHECK(there.device() == stream->device());
  CHECK(back.tensor.is_pinned());
  back.ready->wait();
  CHECK(at::equal(back.tensor, x));
}

TEST_CASE("memory that another stream uses is not used again too early") {
  const auto gpu = first_gpu();
  const auto owner = gpu->make_stream();
  const auto reader = gpu->make_stream();
  at::Tensor sum;
  for (int round = 0; round < 10; ++round) {
    {
      const auto scope = owner->enter();
      auto x = at::full({1 << 20}, 1.0, at::device(owner->device()));
      reader->wait_for(*owner->record());
      delay(*gpu, *reader, 0.02);
      const auto inner = reader->enter();
      reader->uses(x);
      sum = x.sum();
    }
    const auto scope = owner->enter();
    for (int churn = 0; churn < 8; ++churn)
      at::full({1 << 20}, 2.0, at::device(owner->device()));
    reader->drain();
    CHECK(sum.item().toDouble() == 1 << 20);
  }
}
