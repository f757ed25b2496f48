#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <limits>

#include "../../device/expected_mask.hpp"
#include "../host_statistics.hpp"
#include "../same_statistics.hpp"
#include "gpu.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/statistics_row.hpp"
#include "troupe/engine/events/device_statistics.hpp"

using namespace troupe;
using Catch::Matchers::WithinRel;

namespace {

at::Tensor sprinkled(at::Tensor x) {
  const auto infinity = std::numeric_limits<double>::infinity();
  for (const auto value : {std::numeric_limits<double>::quiet_NaN(), infinity,
                           -infinity, 0.0, 1e5, -1e-9, 3.4e38, 1e-44})
    x = x.masked_fill(at::rand_like(x, at::kDouble) < 0.02, value);
  return x;
}

/// Tensors of all dtypes, with widths for threads, warps, blocks and several
/// blocks.
tensor_list many_tensors(int count) {
  tensor_list result;
  const at::ScalarType types[] = {at::kFloat, at::kDouble, at::kHalf,
                                  at::kBFloat16};
  const std::int64_t widths[] = {1, 3, 32, 100, 2048, 5000, 40000};
  for (int i = 0; i < count; ++i)
    result.push_back(
      sprinkled(at::randn({1 + i % 5, widths[i % 7]})).to(types[i % 4]));
  result.push_back(at::zeros({0, 4}));
  return result;
}

tensor_list on_device(const tensor_list& tensors, device_stream& stream) {
  tensor_list result;
  for (const auto& tensor : tensors)
    result.push_back(to_device(tensor, stream));
  return result;
}

/// The same values with other strides, if there are two dimensions.
tensor_list turned(tensor_list tensors, device_stream& stream) {
  const auto scope = stream.enter();
  for (auto& tensor : tensors)
    if (tensor.dim() == 2)
      tensor = tensor.t().contiguous().t();
  return tensors;
}

}  // namespace

TEST_CASE("a launch gives the bits that the host computes") {
  const auto gpu = first_gpu();
  at::manual_seed(1);
  const auto stream = gpu->make_stream();
  const auto tensors = many_tensors(200);
  const auto device = on_device(tensors, *stream);
  const auto scope = stream->enter();
  const auto rows = at::empty({201, wide_statistics_columns},
                              at::device(stream->device()).dtype(at::kDouble));
  gpu->kernels().measure(device, rows);
  const auto result = rows.cpu();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    INFO(describe(tensors[i]));
    CHECK(at::equal(result[static_cast<std::int64_t>(i)],
                    host_statistics_row(tensors[i], true)));
  }
}

TEST_CASE("a device's statistics equal those of `measure`, without a wait") {
  const auto gpu = first_gpu();
  at::manual_seed(2);
  const auto stream = gpu->make_stream();
  auto tensors = many_tensors(50);
  tensors.push_back(at::randn({8, 1 << 21}));
  tensors.push_back(at::randn({1 << 21}) + 1e4);
  tensors.push_back(at::arange(100));
  tensors.push_back(at::arange(3) != 1);
  const auto device = turned(on_device(tensors, *stream), *stream);
  device_statistics statistics{gpu->kernels(), stream->device()};
  const auto measured = [&](double late) {
    delay(*gpu, *stream, late);
    {
      const auto scope = stream->enter();
      for (const auto wide : {true, false}) {
        for (const auto& tensor : device)
          statistics.add(tensor, wide);
        statistics.launch();
      }
    }
    CHECK((late == 0 || !stream->record()->reached()));
    return statistics.take(*stream);
  };
  measured(0);  // allocates
  const auto read = measured(0.2);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    INFO(describe(tensors[i]));
    check_same(read[i], measure(tensors[i], true));
    check_same(read[i + tensors.size()], measure(tensors[i]));
  }
}

TEST_CASE("sampled rows have the bits that the host computes") {
  const auto gpu = first_gpu();
  at::manual_seed(3);
  const auto stream = gpu->make_stream();
  for (const std::int64_t width : {1, 40, 300, 9000}) {
    const auto x = at::randn({100, width});
    const auto on_gpu = on_device({x}, *stream).at(0);
    const std::vector<std::int64_t> chosen{0, 3, 4, 50, 99};
    const auto scope = stream->enter();
    const auto rows = at::empty(
      {5, statistics_columns}, at::device(stream->device()).dtype(at::kDouble));
    gpu->kernels().measure_rows({{on_gpu, width, chosen}}, rows);
    const auto result = rows.cpu();
    for (std::size_t i = 0; i < chosen.size(); ++i)
      CHECK(at::equal(result[static_cast<std::int64_t>(i)],
                      host_statistics_row(x.narrow(0, chosen[i], 1), false)));
  }
}

TEST_CASE("masks of dropout hold the numbers of their stream") {
  const auto gpu = first_gpu();
  const auto stream = gpu->make_stream();
  const auto scope = stream->enter();
  const philox_stream numbers{{7, 8}, 9, 10};
  constexpr auto threshold = 1u << 31;
  for (const std::int64_t count : {0, 1, 63, 64, 65, 1'000'000}) {
    const auto device = at::zeros(
      {count}, at::TensorOptions(gpu->description().device).dtype(at::kByte));
    gpu->kernels().fill_mask(device, numbers, threshold);
    const auto mask = device.cpu();
    const auto words = on_device(
      {at::tensor(std::vector<std::int32_t>{7, 8}, at::kInt)}, *stream);
    const auto by_key = at::zeros_like(device);
    gpu->kernels().fill_mask(by_key, {{}, 9, 10}, threshold, words.at(0));
    CHECK(by_key.cpu().equal(mask));
    CHECK(mask.equal(testing::expected_mask(count, numbers, threshold)));
  }
}

TEST_CASE("powers of norms are in double, and equal from run to run") {
  const auto gpu = first_gpu();
  at::manual_seed(3);
  const auto stream = gpu->make_stream();
  tensor_list tensors;
  for (int i = 0; i < 250; ++i)
    tensors.push_back(
      at::randn({1 + i * 997}).to(i % 2 ? at::kFloat : at::kBFloat16));
  tensors.push_back(at::full({10}, 1e30));
  const auto device = on_device(tensors, *stream);
  const auto scope = stream->enter();
  for (const auto type : {norm_type::infinity, norm_type::one, norm_type::two,
                          norm_type::three}) {
    const auto powers = gpu->kernels().norm_powers(device, type).cpu();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto size = tensors[i].to(at::kDouble).abs();
      const auto expected = type == norm_type::infinity
                              ? size.max()
                              : size.pow(static_cast<int>(type)).sum();
      CHECK_THAT(powers[static_cast<std::int64_t>(i)].item().toDouble(),
                 WithinRel(expected.item().toDouble(), 1e-12));
    }
    CHECK(at::equal(powers, gpu->kernels().norm_powers(device, type).cpu()));
  }
}

TEST_CASE("kernels refuse tensors of another place") {
  const auto gpu = first_gpu();
  CHECK_THROWS_AS(gpu->kernels().norm_powers({at::zeros({3})}, norm_type::two),
                  error);
  CHECK_THROWS_AS(gpu->kernels().delay(11), error);
}
