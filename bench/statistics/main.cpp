// Bytes a second that `measure` reads, beside a plain vectorised sum over the
// same memory in the same run: rounds alternate, medians. One thread. A
// Markdown table on stdout.
//   statistics [--mib N] [--rounds N] [--level NAME]

#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>

#include "plain_sum.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/events/statistics.hpp"
#include "troupe/engine/events/statistics_kernels.hpp"

using namespace troupe;

namespace {

struct settings {
  std::int64_t mib = 64;
  int rounds = 31;
  std::string level;
};

struct test_case {
  std::string name;
  at::Tensor tensor;
  bool with_histogram = false;
};

/// Nanoseconds per call; the mean of many if a call is short.
double time_of(const std::function<void()>& call, std::int64_t bytes) {
  const auto calls = std::max<std::int64_t>(1, (1 << 21) / bytes);
  const auto begin = now_ns();
  for (std::int64_t i = 0; i < calls; ++i)
    call();
  return static_cast<double>(now_ns() - begin) / static_cast<double>(calls);
}

volatile double sink = 0;

void print_row(const test_case& subject, const settings& use,
               const statistics_kernels& kernels) {
  const auto bytes = static_cast<std::int64_t>(subject.tensor.nbytes());
  std::vector<double> ours, sums;
  for (int i = 0; i < use.rounds + 2; ++i) {
    const auto measured = time_of(
      [&] {
        sink = measure(subject.tensor, subject.with_histogram, kernels).mean;
      },
      bytes);
    const auto summed = time_of(
      [&] { sink = plain_sum(subject.tensor.const_data_ptr(), bytes); }, bytes);
    if (i < 2)
      continue;
    ours.push_back(measured);
    sums.push_back(summed);
  }
  const auto rate = [&](const std::vector<double>& times) {
    return static_cast<double>(bytes) / median(times);
  };
  fmt::print("| {} | {} | {:.2f} | {:.1f} | {:.1f} | {:.0f} % |\n",
             subject.name, describe(subject.tensor), median(ours) * 1e-3,
             rate(ours), rate(sums), rate(ours) / rate(sums) * 100);
}

/// Values like those of gradients and activations.
std::vector<test_case> values_of(std::int64_t n) {
  const auto x = at::randn({8, n / 8});
  const auto rare = at::rand({8, n / 8}) < 0.01;
  const auto infinity = std::numeric_limits<double>::infinity();
  return {{"normal", x},
          {"normal, histogram", x, true},
          {"half zeros", x.relu()},
          {"99 % zeros", x * rare},
          {"below fp16's range", x * 1e-9},
          {"beyond fp16's range", x * 1e5},
          {"1e-30", x * 1e-30},
          {"1e30", x * 1e30},
          {"1 % infinite", x.masked_fill(rare, infinity)},
          {"fp64", x.slice(1, 0, n / 16).to(at::kDouble)},
          {"fp16", x.repeat({1, 2}).to(at::kHalf)},
          {"bf16", x.repeat({1, 2}).to(at::kBFloat16)}};
}

std::vector<test_case> shapes() {
  return {{"4 KiB", at::randn({1, 1024})},
          {"256 KiB", at::randn({1, 65536})},
          {"1 MiB", at::randn({1, 262144})},
          {"1-D", at::randn({1024})},
          {"short instances", at::randn({1024, 256})},
          {"long instances", at::randn({8, 32768})},
          {"many instances", at::randn({65536, 256})},
          {"narrow instances", at::randn({65536, 8})},
          {"4 KiB, half zeros", at::randn({1, 1024}).relu()},
          {"4 KiB, bf16", at::randn({1, 2048}).to(at::kBFloat16)}};
}

const statistics_kernels& kernels_named(const std::string& name) {
  const auto usable = usable_kernels();
  for (const auto* kernels : usable)
    if (name == kernels->instruction_set)
      return *kernels;
  return *usable.back();
}

}  // namespace

int main(int argc, char** argv) {
  settings use;
  CLI::App app{"rate of tensor statistics"};
  app.add_option("--mib", use.mib, "size of the large tensors");
  app.add_option("--rounds", use.rounds);
  app.add_option("--level", use.level,
                 "instruction set: plain, avx2 or avx512; the best if not "
                 "given or not usable");
  CLI11_PARSE(app, argc, argv);
  set_intra_op_threads(1);
  const auto& kernels = kernels_named(use.level);
  fmt::print("Instruction set: {}\n\n", kernels.instruction_set);
  fmt::print(
    "| values | tensor | us | GB/s | plain sum's GB/s | ratio |\n"
    "|---|---|---|---|---|---|\n");
  for (const auto& subject : values_of(use.mib << 18))
    print_row(subject, use, kernels);
  for (const auto& subject : shapes())
    print_row(subject, use, kernels);
}
