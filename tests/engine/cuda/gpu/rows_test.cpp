#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/autograd.h>

#include "gpu.hpp"
#include "troupe/engine/device/matrix_product.hpp"
#include "troupe/engine/fused/column_sums.hpp"
#include "troupe/engine/fused/cross_entropy.hpp"
#include "troupe/engine/fused/gpu_functions.hpp"
#include "troupe/engine/fused/norm.hpp"
#include "troupe/engine/fused/rotary.hpp"

using namespace troupe;

namespace {

/// Within two units of the last place of the dtype, of the largest value.
bool near(const at::Tensor& found, const at::Tensor& expected) {
  const auto unit = found.scalar_type() == at::kFloat  ? 5e-6
                    : found.scalar_type() == at::kHalf ? 0x1p-10
                                                       : 0x1p-7;
  const auto most = expected.abs().max();
  return ((found.to(at::kDouble) - expected).abs().max() <= most * 2 * unit)
    .item()
    .toBool();
}

at::Tensor leaf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kDouble).detach().requires_grad_()
                          : tensor;
}

struct norm_case {
  std::int64_t rows, width;
  bool has_bias;
  at::ScalarType of_x, of_output;
};

struct norm_inputs {
  norm_inputs(const norm_case& c, const at::TensorOptions& here)
    : x((at::randn({c.rows, c.width}, here) * 3 + 5).to(c.of_x)),
      weight(at::randn({c.width}, here)),
      bias(c.has_bias ? at::randn({c.width}, here) : at::Tensor()),
      gradient(at::randn({c.rows, c.width}, here).to(c.of_output)),
      added(at::randn({c.rows, c.width}, here).to(c.of_x)) {}

  /// Output, and gradients of x, weight and bias.
  tensor_list run() const {
    const auto y =
      fused::norm_on_gpu(x, weight, bias, 1e-5, gradient.scalar_type());
    const auto gradients = fused::norm_backward_on_gpu(gradient, x, y, weight,
                                                       bias.defined(), added);
    return {y.output, gradients.x, gradients.weight, gradients.bias};
  }
  tensor_list run_in_fp64() const {
    const auto x64 = leaf(x), weight64 = leaf(weight), bias64 = leaf(bias);
    const auto y =
      bias.defined()
        ? at::layer_norm(x64, weight.sizes(), weight64, bias64, 1e-5)
        : at::rms_norm(x64, weight.sizes(), weight64, 1e-5);
    y.backward(gradient.to(at::kDouble));
    return {y.detach(), x64.grad() + added.to(at::kDouble), weight64.grad(),
            bias.defined() ? bias64.grad() : bias};
  }

  at::Tensor x, weight, bias, gradient, added;
};

void require_right(const norm_case& c, at::Device device) {
  CAPTURE(c.rows, c.width, c.has_bias, c.of_x, c.of_output);
  const norm_inputs inputs(c, device);
  REQUIRE(fused::has_gpu_norm(inputs.x, inputs.weight, inputs.bias));
  const auto found = inputs.run(), again = inputs.run();
  const auto expected = inputs.run_in_fp64();
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!expected[i].defined())
      continue;
    CHECK(near(found[i], expected[i]));
    CHECK(at::equal(found[i], again[i]));
  }
}

}  // namespace

TEST_CASE("norms on a GPU are those of LibTorch in fp64, in equal bits") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{1, 4},
                                    {3, 128},
                                    {9001, 64},
                                    {700, 516},
                                    {2048, 1024},
                                    {600, 8192}})
    for (const bool has_bias : {true, false}) {
      require_right({rows, width, has_bias, at::kFloat, at::kFloat},
                    stream->device());
      require_right({rows, width, has_bias, at::kFloat, at::kBFloat16},
                    stream->device());
      require_right({rows, width, has_bias, at::kBFloat16, at::kHalf},
                    stream->device());
    }
}

TEST_CASE("sums of columns on a GPU are added to what is there") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{1, 4}, {256, 132}, {5000, 4096}})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto matrix = at::randn({rows, width}, here).to(type);
      const auto sums = at::randn({width}, here);
      const auto expected =
        sums.to(at::kDouble) + matrix.to(at::kDouble).sum(0);
      REQUIRE(fused::has_gpu_column_sums(sums, matrix));
      fused::sum_columns_on_gpu(sums, matrix, /*adds=*/true);
      CHECK(near(sums, expected));
    }
}

TEST_CASE("a tensor's place on a GPU doesn't change the bits") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  const auto elsewhere = [&](const at::Tensor& x) {
    const auto room = at::empty({x.numel() + 1}, x.options());
    return room.narrow(0, 1, x.numel()).view(x.sizes()).copy_(x);
  };
  const auto rows = at::randn({30, 8}, here), factor = at::randn({30, 8}, here);
  auto sum = at::ones({8}, here), displaced = elsewhere(sum);
  fused::add_column_sums(sum, rows, at::kFloat);
  fused::add_column_sums(displaced, elsewhere(rows), at::kFloat);
  CHECK(at::equal(displaced, sum));
  REQUIRE(fused::has_gpu_norm(elsewhere(rows), elsewhere(sum), {}));
  CHECK(at::equal(fused::rms_norm(elsewhere(rows), elsewhere(sum)),
                  fused::rms_norm(rows, sum)));
  const auto which = fused::activation::silu;
  CHECK(at::equal(fused::gated_on_gpu(elsewhere(rows), factor, which),
                  fused::gated_on_gpu(rows, factor, which)));
}

TEST_CASE("norms under autocast on a GPU have LibTorch's dtypes") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  const auto weight = at::randn({64}, here), bias = at::randn({64}, here);
  at::autocast::set_autocast_enabled(at::kCUDA, true);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto x = at::randn({3, 64}, here).to(type);
    CHECK(fused::layer_norm(x, weight, bias).scalar_type() == at::kFloat);
    CHECK(fused::rms_norm(x, weight).scalar_type() == type);
  }
  at::autocast::set_autocast_enabled(at::kCUDA, false);
}

TEST_CASE("gated activations on a GPU are those of LibTorch in fp64") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto x = (at::randn({300, 1100}, here) * 3).to(type);
    const auto factor = at::randn({300, 1100}, here).to(type);
    const auto gradient = at::randn({300, 1100}, here).to(type);
    const auto x64 = leaf(x), factor64 = leaf(factor);
    const auto expected = at::silu(x64) * factor64;
    expected.backward(gradient.to(at::kDouble));
    REQUIRE(fused::has_gpu_activations(x));
    const auto of = fused::gated_backward_on_gpu(gradient, x, factor,
                                                 fused::activation::silu);
    CHECK(near(fused::gated_on_gpu(x, factor, fused::activation::silu),
               expected.detach()));
    CHECK(near(of.x, x64.grad()));
    CHECK(near(of.factor, factor64.grad()));
  }
}

TEST_CASE("a GPU rotates heads of any strides, and back") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  const auto x = at::randn({2, 50, 3, 4, 64}, here).select(2, 1);
  const auto angles = at::randn({50, 16}, here);
  const auto c = angles.cos(), s = angles.sin();
  const auto a = x.narrow(3, 0, 16), b = x.narrow(3, 16, 16);
  const auto cosines = c.unsqueeze(1), sines = s.unsqueeze(1);
  REQUIRE(fused::has_gpu_rotation(x, 16));
  const auto y = fused::rotate_on_gpu(x, c, s, /*inverse=*/false);
  CHECK(near(y.narrow(3, 0, 16), (a * cosines - b * sines).to(at::kDouble)));
  CHECK(near(y.narrow(3, 16, 16), (b * cosines + a * sines).to(at::kDouble)));
  CHECK(at::equal(y.narrow(3, 32, 32), x.narrow(3, 32, 32)));
  CHECK(
    near(fused::rotate_on_gpu(y, c, s, /*inverse=*/true), x.to(at::kDouble)));
}

TEST_CASE("gradients of rotations on a GPU may be any view") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  const auto x = at::randn({2, 5, 3, 8}, here).requires_grad_();
  const auto angles = at::randn({5, 4}, here);
  const auto gradient = at::randn({2, 5, 3, 9}, here).narrow(3, 1, 8);
  const auto of_x = [&](const at::Tensor& of_output) {
    const auto y = fused::rotate(x, angles.cos(), angles.sin());
    return torch::autograd::grad({y}, {x}, {of_output})[0];
  };
  REQUIRE(fused::has_gpu_rotation(gradient, 4));
  CHECK(at::equal(of_x(gradient), of_x(gradient.contiguous())));
}

TEST_CASE("calls of operators for a GPU go past autograd") {
  first_gpu();
  for (const auto* name : {"gpu_norm", "gpu_norm_backward", "gpu_sum_columns",
                           "gpu_gated", "gpu_gated_backward", "gpu_rotate",
                           "gpu_cross_entropy", "gpu_cross_entropy_gradient_"})
    CHECK(c10::Dispatcher::singleton()
            .findSchemaOrThrow(("troupe::" + std::string(name)).c_str(), "")
            .isKernelFallthroughKernel(c10::DispatchKey::Autograd));
}

TEST_CASE("cross entropy on a GPU is that of LibTorch in fp64") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto logits = (at::randn({300, 32000}, here) * 5).to(type);
    const auto targets = at::randint(0, 32000, {300}, here.dtype(at::kLong));
    targets.narrow(0, 7, 9).fill_(-100);
    const auto logits64 = leaf(logits);
    const auto expected =
      at::cross_entropy_loss(logits64, targets, {}, at::Reduction::Sum, -100);
    (expected * 3).backward();
    REQUIRE(fused::has_gpu_cross_entropy(logits));
    const auto losses = fused::cross_entropy(logits, targets, -100);
    CHECK(near(losses.sum, expected.detach()));
    fused::cross_entropy_gradient_(logits, targets, losses.norms,
                                   at::full({}, 3.0F, here), -100);
    CHECK(near(logits, logits64.grad()));
  }
}

TEST_CASE("products of half precision are added to fp32 without rounding") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream(stream_priority::normal);
  const auto scope = stream->enter();
  const at::TensorOptions here(stream->device());
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto gradients = at::randn({512, 384}, here).to(type);
    const auto x = at::randn({512, 256}, here).to(type);
    const auto product = gradients.to(at::kDouble).t().mm(x.to(at::kDouble));
    at::Tensor sum;
    for (int times = 1; times <= 2; ++times) {
      add_matrix_product(sum, gradients.t(), x, at::kFloat);
      REQUIRE(sum.scalar_type() == at::kFloat);
      CHECK(near(sum, product * times));
    }
  }
}
