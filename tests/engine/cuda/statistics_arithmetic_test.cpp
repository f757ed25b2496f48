#include "troupe/engine/cuda/statistics_arithmetic.hpp"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "host_statistics.hpp"
#include "host_stream.hpp"
#include "same_statistics.hpp"
#include "troupe/engine/cuda/statistics_pieces.hpp"
#include "troupe/engine/events/device_statistics.hpp"

using namespace troupe;
using Catch::Approx;

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();
constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

at::Tensor sprinkled(at::Tensor x) {
  for (const auto value : {not_a_number, infinity, -infinity, 0.0, -0.0, 1e5,
                           -1e-9, 3.4e38, 1e-44})
    x = x.masked_fill(at::rand_like(x, at::kDouble) < 0.02, value);
  return x;
}

/// Computed like on a device, with kernels of the host.
tensor_statistics as_device(const at::Tensor& tensor, bool with_histogram) {
  host_kernels kernels;
  host_stream stream;
  device_statistics statistics{kernels, at::kCPU};
  statistics.add(tensor, with_histogram);
  statistics.launch();
  return statistics.take(stream).at(0);
}

void check_against_measure(const at::Tensor& tensor) {
  INFO(describe(tensor));
  check_same(as_device(tensor, true), measure(tensor, true));
}

}  // namespace

TEST_CASE("a device's statistics are the host's, for every dtype and shape") {
  at::manual_seed(1);
  const auto x = at::randn({3, 5, 1000}) * 3 + 1;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    check_against_measure(x.to(type));
    check_against_measure(sprinkled(x).to(type));
    check_against_measure(x[0][0][0].to(type));
    for (const auto width : {1, 2, 16, 17, 31, 32, 33, 511, 512, 513, 2047,
                             2048, 2049, 16384, 16385, 70000})
      check_against_measure(sprinkled(at::randn({3, width})).to(type));
    check_against_measure(sprinkled(at::randn({3000, 5})).to(type));
    check_against_measure(sprinkled(at::randn({20000})).to(type));
    check_against_measure(at::randn({700, 100}).to(type));
  }
}

TEST_CASE("no mean is too far, and no value too large or small, for a device") {
  at::manual_seed(2);
  const auto x = at::randn({4, 20000});
  for (const auto scale : {1e-42, 1e-30, 1e-12, 1e12, 1e30})
    check_against_measure(x * scale);
  for (const auto scale : {1e-300, 1e-170, 1e170, 1e300})
    check_against_measure(x.to(at::kDouble) * scale);
  for (const auto mean : {1e3, 1e6, -1e6})
    check_against_measure(x + mean);
  check_against_measure(at::full({5, 3000}, 1e30));
  check_against_measure(at::full({5, 3000}, 0.1));
  auto outlier = x.clone();
  outlier[0][0] = 1e9;
  check_against_measure(outlier);
}

TEST_CASE("a device counts nothing finite, and nothing at all") {
  check_against_measure(at::full({2, 40}, not_a_number));
  check_against_measure(at::full({2, 3000}, -infinity));
  check_against_measure(at::zeros({3, 50}));
  CHECK(as_device(at::zeros({0, 3}), true) == tensor_statistics{});
}

TEST_CASE("pieces cover each value once") {
  for (const std::int64_t instances : {1, 2, 255, 256, 257, 5000})
    for (const std::int64_t width : {1, 2, 32, 33, 2048, 2049, 16385, 40000}) {
      const auto entry = cut(instances, width);
      std::int64_t values = 0;
      for (std::int64_t piece = 0; piece < entry.pieces(); ++piece) {
        const auto range = range_of(entry, piece);
        values += (range.last - range.first) * (range.end - range.begin);
      }
      CHECK(values == instances * width);
    }
}

TEST_CASE("16-bit floats are widened exactly") {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto word = static_cast<std::uint16_t>(bits);
    const auto half = static_cast<float>(at::Half{word, at::Half::from_bits()});
    const auto brain =
      static_cast<float>(at::BFloat16{word, at::BFloat16::from_bits()});
    if (half == half ? widened_half(word) != half
                     : widened_half(word) == widened_half(word))
      FAIL("fp16 of bits " << bits);
    if (brain == brain && widened_bfloat16(word) != brain)
      FAIL("bf16 of bits " << bits);
  }
}

TEST_CASE("a device's estimates from sampled rows are the host's") {
  at::manual_seed(3);
  host_kernels kernels;
  host_stream stream;
  device_statistics statistics{kernels, at::kCPU};
  std::vector<row_estimates> expected;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
    for (const std::int64_t width : {40, 300, 9000}) {
      const auto whole = (at::randn({3, 100, width}) + 1).to(type);
      const auto x = whole.narrow(0, 1, 2);  // begins within its storage
      const row_plan plan{2, 100, 7, width};
      const auto rows = drawn_rows(plan, {1, 2});
      CHECK(statistics.add_sample(x, plan, rows) == expected.size());
      expected.push_back(estimated(plan, measure_rows(x, width, rows)));
      if (width == 300)
        statistics.launch();
    }
  statistics.add(at::full({4}, 2.0));
  statistics.launch();
  const auto read = statistics.take_samples(stream);
  REQUIRE(read.size() == expected.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i].read == expected[i].read);
    CHECK(read[i].max_abs == expected[i].max_abs);
    CHECK(read[i].mean.value == Approx(expected[i].mean.value));
    CHECK(read[i].mean.variance == Approx(expected[i].mean.variance));
    CHECK(read[i].variance.value == Approx(expected[i].variance.value));
    CHECK(read[i].variance.variance == Approx(expected[i].variance.variance));
  }
  CHECK(statistics.take(stream).size() == 1);
  CHECK(statistics.take_samples(stream).empty());
}

TEST_CASE("batches keep the order of their tensors, wide or not") {
  host_kernels kernels;
  host_stream stream;
  device_statistics statistics{kernels, at::kCPU};
  const auto one = at::full({2, 3}, 1.0), two = at::full({4}, 2.0);
  CHECK(statistics.add(one) == 0);
  CHECK(statistics.add(two) == 1);
  statistics.launch();
  CHECK(statistics.add(two, true) == 2);
  statistics.launch();
  statistics.launch();
  CHECK(statistics.add(one) == 3);
  statistics.launch();
  const auto read = statistics.take(stream);
  REQUIRE(read.size() == 4);
  CHECK(read[0] == measure(one));
  CHECK(read[1] == measure(two));
  CHECK(read[2] == measure(two, true));
  CHECK(read[3] == measure(one));
  CHECK(statistics.take(stream).empty());
}
