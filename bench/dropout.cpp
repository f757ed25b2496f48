// The time of dropout's forward and backward beside LibTorch's own in the same
// run: rounds alternate, medians. One thread. A Markdown table on stdout.
//   dropout [--rounds N]

#include <ATen/ops/dropout.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>

#include "troupe/bench/measuring.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/random_draws.hpp"

using namespace troupe;

namespace {

/// Nanoseconds per element of both passes.
double time_of(const std::function<at::Tensor(const at::Tensor&)>& drop,
               const at::Tensor& values) {
  const auto x = values.detach().requires_grad_(true);
  const auto gradient = at::ones_like(values);
  const auto begin = now_ns();
  drop(x).backward(gradient);
  return static_cast<double>(now_ns() - begin)
         / static_cast<double>(values.numel());
}

void print_row(std::int64_t elements, at::ScalarType type, int rounds) {
  const auto x = at::randn({elements}).to(type);
  random_draws draws{.seed = 1};
  const draws_scope scope(&draws);
  std::vector<double> ours, theirs;
  for (int i = 0; i < rounds + 2; ++i) {
    const auto own =
      time_of([](const at::Tensor& t) { return dropout(t, 0.1); }, x);
    const auto other =
      time_of([](const at::Tensor& t) { return at::dropout(t, 0.1, true); }, x);
    if (i < 2)
      continue;  // warm
    ours.push_back(own);
    theirs.push_back(other);
  }
  fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.3f} |\n", elements,
             at::toString(type), median(ours), median(theirs),
             median(ours) / median(theirs));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Dropout beside LibTorch's.");
  int rounds = 31;
  app.add_option("--rounds", rounds, "rounds of each");
  CLI11_PARSE(app, argc, argv);
  return run_benchmark([&] {
    const compute_scope computes(1);
    fmt::print(
      "| elements | dtype | ns an element | LibTorch | ratio |\n"
      "|---|---|---|---|---|\n");
    for (const std::int64_t elements : {1 << 12, 1 << 16, 1 << 20})
      for (const auto type : {at::kFloat, at::kBFloat16})
        print_row(elements, type, rounds);
  });
}
