// Processor seconds that compile, verify and simulate take, best of five, and
// the peak of the process:
//   plan_speed [SCHEDULE RANKS STAGES_PER_RANK MICROBATCHES]
// By default two plans: zb_v on 64 ranks, whose goal is 0.5 s, and 1f1b on
// 4096, whose goal is 2 s and 1.5 GiB.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <string>

#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/schedules/builtin.hpp"

namespace {

using steps = std::array<double, 3>;

// CPU time of this process, as the machine may be busy; everything measured
// runs on one thread.
double seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

steps measure(const troupe::schedule& lanes) {
  const auto begin = seconds();
  const auto plan = troupe::compile(lanes);
  const auto compiled = seconds();
  const auto verdict =
    troupe::verify(plan, {.kind = troupe::transport_kind::credited});
  const auto verified = seconds();
  const auto times = troupe::simulate(plan);
  const auto simulated = seconds();
  if (!verdict.progress || times.makespan <= 0)
    std::abort();
  return {compiled - begin, verified - compiled, simulated - verified};
}

double total(const steps& subject) {
  return subject[0] + subject[1] + subject[2];
}

void print_row(const std::string& name, const troupe::schedule_shape& shape) {
  const auto lanes = troupe::make_schedule(name, shape);
  auto best = measure(lanes);
  for (int i = 1; i < 5; ++i)
    best = std::min(best, measure(lanes), [](const auto& a, const auto& b) {
      return total(a) < total(b);
    });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
    "| {}, {} ranks, m = {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {} |\n", name,
    shape.ranks, shape.microbatches, best[0], best[1], best[2], total(best),
    usage.ru_maxrss / 1024);
}

}  // namespace

int main(int argc, char** argv) {
  fmt::print(
    "| plan | compile, s | verify, s | simulate, s | together, s | peak, MiB "
    "|\n"
    "|---|---|---|---|---|---|\n");
  const auto number = [&](int index) {
    return argc > index ? std::atoi(argv[index]) : 1;
  };
  if (argc > 1) {
    print_row(argv[1], {.ranks = number(2),
                        .stages_per_rank = number(3),
                        .microbatches = number(4)});
    return 0;
  }
  print_row("zb_v", {.ranks = 64, .stages_per_rank = 2, .microbatches = 512});
  print_row("1f1b", {.ranks = 4096, .microbatches = 512});
}
