#include "host_block.hpp"
// The kernels need what is defined there.
#include "troupe/engine/cuda/layer_kernels.cuh"
#include "troupe/engine/cuda/loss_kernels.cuh"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

constexpr double epsilon = 1e-5;

typed_values values_of(const at::Tensor& tensor) {
  if (!tensor.defined())
    return {};
  const auto type = tensor.scalar_type();
  return {tensor.data_ptr(), type == at::kFloat  ? device_type::fp32
                             : type == at::kHalf ? device_type::fp16
                                                 : device_type::bf16};
}

float* floats_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
}

at::Tensor unwritten(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::full(sizes, NAN, type);
}

void sum_columns(const at::Tensor& matrix, const at::Tensor& sums,
                 std::int64_t rows_per_part, bool adds = false) {
  column_sums_task task;
  task.values = values_of(matrix);
  task.sums = values_of(sums);
  task.rows = matrix.size(0);
  task.width = matrix.size(1);
  task.rows_per_part = rows_per_part;
  task.adds = adds;
  run_on_host(
    {static_cast<unsigned>(task.tiles()), static_cast<unsigned>(task.parts())},
    block_threads, column_sums_kernel, task);
}

dim3 threads_for(std::int64_t width) {
  const auto cut = cut_norm_row(width);
  return {static_cast<unsigned>(cut.threads), static_cast<unsigned>(cut.teams)};
}

struct norm_inputs {
  at::Tensor x, weight, bias, gradient, added;
};
struct norm_results {
  at::Tensor output, mean, scale, of_x, of_weight, of_bias;
};

void run_forward(const norm_inputs& in, const norm_results& out, auto kernel) {
  norm_task task;
  task.x = values_of(in.x);
  task.weight = values_of(in.weight);
  task.bias = values_of(in.bias);
  task.output = values_of(out.output);
  task.means = floats_of(out.mean);
  task.scales = floats_of(out.scale);
  task.rows = in.x.size(0);
  task.width = in.x.size(1);
  task.epsilon = static_cast<float>(epsilon);
  run_on_host(2, threads_for(task.width), kernel, task);
}

void run_backward(const norm_inputs& in, norm_results& out, auto kernel) {
  norm_backward_task task;
  task.gradient = values_of(in.gradient);
  task.x = values_of(in.x);
  task.weight = values_of(in.weight);
  task.added = values_of(in.added);
  task.input_gradient = values_of(out.of_x);
  task.means = floats_of(out.mean);
  task.scales = floats_of(out.scale);
  task.rows = in.x.size(0);
  task.width = in.x.size(1);
  task.has_bias = in.bias.defined();
  const auto threads = threads_for(task.width);
  const auto parts = unwritten({2 * threads.y, task.part_width()});
  task.parts = floats_of(parts);
  run_on_host(2, threads, kernel, task);
  const auto sums = unwritten({task.part_width()});
  sum_columns(parts, sums, parts.size(0));
  out.of_weight = sums.narrow(0, 0, task.width);
  if (task.has_bias)
    out.of_bias = sums.narrow(0, task.width, task.width);
}

/// The kernels' results, as launched on a GPU, but in two blocks.
template <int Chunks>
norm_results run_norm(const norm_inputs& in) {
  const auto sizes = in.x.sizes();
  norm_results out;
  out.output = unwritten(sizes, in.gradient.scalar_type());
  if (in.bias.defined())
    out.mean = unwritten({sizes[0]});
  out.scale = unwritten({sizes[0]});
  out.of_x = unwritten(sizes, in.x.scalar_type());
  run_forward(in, out, norm_kernel<Chunks>);
  run_backward(in, out, norm_backward_kernel<Chunks>);
  return out;
}

/// Within a unit of the last place of the dtype, of the largest value.
bool near(const at::Tensor& found, const at::Tensor& expected) {
  const auto type = found.scalar_type();
  const auto unit = type == at::kFloat  ? 1e-6
                    : type == at::kHalf ? 0x1p-10
                                        : 0x1p-7;
  const auto most = expected.abs().max();
  return ((found.to(at::kDouble) - expected).abs().max() <= most * unit)
    .item()
    .toBool();
}

at::Tensor leaf(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kDouble).detach().requires_grad_()
                          : tensor;
}

template <int Chunks>
void require_right(std::int64_t width, bool has_bias, at::ScalarType of_x,
                   at::ScalarType of_output) {
  const std::int64_t rows = width > 128 ? 5 : has_bias ? 21 : 13;
  const auto x = (at::randn({rows, width}) * 3 + 5).to(of_x);
  const auto weight =
    at::randn({width}).to(of_output == at::kHalf ? at::kBFloat16 : at::kFloat);
  const auto bias = has_bias ? at::randn({width}) : at::Tensor();
  const auto gradient = at::randn({rows, width}).to(of_output);
  const auto added = at::randn({rows, width}).to(of_output);
  const auto x64 = leaf(x), weight64 = leaf(weight), bias64 = leaf(bias);
  const auto expected =
    has_bias ? at::layer_norm(x64, {width}, weight64, bias64, epsilon)
             : at::rms_norm(x64, {width}, weight64, epsilon);
  expected.backward(gradient.to(at::kDouble));

  const auto found = run_norm<Chunks>({x, weight, bias, gradient, added});
  CHECK(near(found.output, expected.detach()));
  CHECK(near(found.of_x, x64.grad() + added.to(at::kDouble)));
  CHECK(near(found.of_weight, weight64.grad()));
  if (has_bias)
    CHECK(near(found.of_bias, bias64.grad()));
}

at::Tensor activated(gpu_activation which, const at::Tensor& x) {
  switch (which) {
    case gpu_activation::gelu:
      return at::gelu(x);
    case gpu_activation::gelu_tanh:
      return at::gelu(x, "tanh");
    default:
      return at::silu(x);
  }
}

rotate_task rotation(const at::Tensor& x, const at::Tensor& angles,
                     const at::Tensor& output) {
  rotate_task task;
  task.x = values_of(x);
  task.output = values_of(output);
  task.row_stride = x.stride(0);
  task.position_stride = x.stride(1);
  task.head_stride = x.stride(2);
  task.rows = x.size(0);
  task.positions = static_cast<std::int32_t>(x.size(1));
  task.heads = static_cast<std::int32_t>(x.size(2));
  task.size = static_cast<std::int32_t>(x.size(3));
  task.pairs = static_cast<std::int32_t>(angles.size(1));
  return task;
}

}  // namespace

TEST_CASE("kernels of gated activations give what LibTorch gives in fp64") {
  for (const auto which :
       {gpu_activation::gelu, gpu_activation::gelu_tanh, gpu_activation::silu})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(static_cast<int>(which), type);
      const auto x = (at::randn({1100}) * 3).to(type);
      const auto factor = at::randn({1100}).to(type);
      const auto gradient = at::randn({1100}).to(type);
      const auto x64 = leaf(x), factor64 = leaf(factor);
      const auto expected = activated(which, x64) * factor64;
      expected.backward(gradient.to(at::kDouble));
      gated_task task;
      task.x = values_of(x);
      task.factor = values_of(factor);
      task.count = x.numel();
      task.activation = which;
      const auto output = unwritten({1100}, type),
                 of_x = unwritten({1100}, type),
                 of_factor = unwritten({1100}, type);
      task.output = values_of(output);
      run_on_host({1, 1}, block_threads, gated_kernel, task);
      task.gradient = values_of(gradient);
      task.of_x = values_of(of_x);
      task.of_factor = values_of(of_factor);
      run_on_host({1, 1}, block_threads, gated_backward_kernel, task);
      CHECK(near(output, expected.detach()));
      CHECK(near(of_x, x64.grad()));
      CHECK(near(of_factor, factor64.grad()));
    }
}

TEST_CASE("kernels of activations are finite where LibTorch is in fp64") {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  const auto x = at::tensor({infinity, -infinity, NAN, 3e38F, -3e38F, 1e20F,
                             -1e20F, 100.0F, -100.0F, 1e-40F, 0.0F, -13.3F});
  const auto ones = at::ones_like(x);
  for (const auto which : {gpu_activation::gelu, gpu_activation::gelu_tanh,
                           gpu_activation::silu}) {
    CAPTURE(static_cast<int>(which));
    const auto x64 = leaf(x);
    activated(which, x64).sum().backward();
    const auto of_x = unwritten({12}), of_factor = unwritten({12});
    gated_task task;
    task.x = values_of(x);
    task.factor = task.gradient = values_of(ones);
    task.of_x = values_of(of_x);
    task.of_factor = values_of(of_factor);
    task.count = x.numel();
    task.activation = which;
    run_on_host({1, 1}, 32, gated_backward_kernel, task);
    CHECK(of_x.isfinite().equal(x64.grad().isfinite()));
    CHECK(of_factor.isfinite().equal(
      activated(which, x.to(at::kDouble)).isfinite()));
  }
}

TEST_CASE("a kernel rotates heads of any strides, and back") {
  const auto projection = at::randn({3, 5, 3, 14, 24});
  const auto x = projection.select(2, 1);
  for (const std::int64_t pairs : {4, 8, 12}) {
    CAPTURE(pairs);
    const auto angles = at::randn({5, pairs});
    const auto cosines = angles.cos(), sines = angles.sin();
    const auto c = cosines.view({5, 1, pairs}), s = sines.view({5, 1, pairs});
    const auto a = x.narrow(3, 0, pairs), b = x.narrow(3, pairs, pairs);
    const auto expected = at::cat(
      {a * c - b * s, b * c + a * s, x.narrow(3, 2 * pairs, 24 - 2 * pairs)},
      3);
    const auto output = unwritten({3, 5, 14, 24}), back = output.clone();
    auto task = rotation(x, angles, output);
    task.cosines = values_of(cosines);
    task.sines = values_of(sines);
    run_on_host({5, 1}, 32, rotate_kernel, task);
    CHECK(near(output, expected.to(at::kDouble)));
    task = rotation(output, angles, back);
    task.cosines = values_of(cosines);
    task.sines = values_of(sines);
    task.inverse = true;
    run_on_host({5, 2}, 32, rotate_kernel, task);
    CHECK(near(back, x.to(at::kDouble)));
  }
}

TEST_CASE("kernels of losses give what LibTorch gives in fp64") {
  for (const std::int64_t classes : {4, 100, 2048, 5000})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(classes, type);
      const auto logits = (at::randn({5, classes}) * 5).to(type);
      const auto targets = at::randint(0, classes, {5}, at::kLong);
      targets[3] = -100;
      const auto logits64 = leaf(logits);
      const auto expected =
        at::cross_entropy_loss(logits64, targets, {}, at::Reduction::Sum, -100);
      (expected * 3).backward();
      const auto losses = unwritten({5}), norms = unwritten({5, 2});
      const auto scale = at::full({}, 3.0F);
      cross_entropy_task task;
      task.logits = values_of(logits);
      task.targets = targets.const_data_ptr<std::int64_t>();
      task.losses = floats_of(losses);
      task.norms = floats_of(norms);
      task.rows = 5;
      task.width = classes;
      task.ignored = -100;
      run_on_host({2, 1}, block_threads, loss_kernel, task);
      task.scale = floats_of(scale);
      run_on_host({2, 1}, block_threads, loss_gradient_kernel, task);
      CHECK(near(losses.sum(), expected.detach()));
      CHECK(near(logits, logits64.grad()));
    }
}

TEST_CASE("a loss of values that are not finite is not, as in LibTorch") {
  const auto infinity = std::numeric_limits<float>::infinity();
  const auto logits = at::randn({5, 8});
  logits[0][3] = NAN;
  logits[1][2] = infinity;
  logits[2][2] = -infinity;
  logits[3].fill_(-infinity);
  const auto targets = at::full({5}, 1, at::kLong);
  targets[4] = 8;  // no class
  const auto losses = unwritten({5}), norms = unwritten({5, 2});
  cross_entropy_task task;
  task.logits = values_of(logits);
  task.targets = targets.const_data_ptr<std::int64_t>();
  task.losses = floats_of(losses);
  task.norms = floats_of(norms);
  task.rows = 5;
  task.width = 8;
  task.ignored = -100;
  run_on_host({1, 1}, block_threads, loss_kernel, task);
  const auto* loss = losses.const_data_ptr<float>();
  CHECK(std::isnan(loss[0]));
  CHECK(!std::isfinite(loss[1]));
  CHECK(std::isfinite(loss[2]));
  CHECK(!std::isfinite(loss[3]));
  CHECK(std::isnan(loss[4]));
}

TEST_CASE("kernels of norms give what LibTorch gives in fp64") {
  const std::pair<at::ScalarType, at::ScalarType> types[] = {
    {at::kFloat, at::kFloat},
    {at::kFloat, at::kBFloat16},
    {at::kBFloat16, at::kHalf}};
  for (const std::int64_t width : {4, 128, 516})
    for (const bool has_bias : {true, false})
      for (const auto& [of_x, of_output] : types) {
        CAPTURE(width, has_bias, of_x, of_output);
        if (cut_norm_row(width).chunks == 1)
          require_right<1>(width, has_bias, of_x, of_output);
        else
          require_right<2>(width, has_bias, of_x, of_output);
      }
}

TEST_CASE("kernels sum columns in parts, and add to what is there") {
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{70, 36},
        {32, 4},
        {33, 4},
        {600, 36}})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      CAPTURE(rows, width, type);
      const auto matrix = at::randn({rows, width}).to(type);
      const auto per_part = rows < 600 ? 32 : 300;
      const auto parts = unwritten({(rows - 1) / per_part + 1, width});
      const auto sums = at::randn({width});
      const auto expected =
        sums.to(at::kDouble) + matrix.to(at::kDouble).sum(0);
      sum_columns(matrix, parts, per_part);
      sum_columns(parts, sums, parts.size(0), /*adds=*/true);
      CHECK(near(sums, expected));
    }
}

TEST_CASE("sums of rows are of as many parts as a launch takes") {
  for (const std::int64_t rows :
       {1LL, 256LL, 257LL, 16384LL, 1LL << 17, (1LL << 17) + 1, 1LL << 40}) {
    const auto parts = (rows - 1) / rows_per_sum(rows) + 1;
    CHECK((parts >= 1 && parts <= 512));
  }
  for (const std::int64_t width : {4, 64, 1024, 4096, 8192})
    for (const std::int64_t rows : {0, 1, 300, 100000}) {
      const auto parts = norm_parts(rows, width);
      const auto teams = cut_norm_row(width).teams;
      CHECK((parts < rows + teams && parts <= 1024
             && (rows < 128 || parts >= 128)));
    }
}

TEST_CASE("each column of a row is taken by one thread") {
  for (std::int64_t width = 4; width <= 8192; width += 4) {
    const auto cut = cut_norm_row(width);
    const auto most = std::int64_t{4} * cut.threads * cut.chunks;
    const bool is_legal = (cut.chunks == 1 || cut.chunks == 2)
                          && cut.threads >= 32 && cut.threads <= 1024
                          && (cut.threads & (cut.threads - 1)) == 0;
    REQUIRE((is_legal && most >= width && (most / 2 < width || most <= 256)));
  }
  for (const std::int64_t width : {0, 1, 2, 3, 6, 1023, 8196, 100000})
    CHECK(cut_norm_row(width).chunks == 0);
}
