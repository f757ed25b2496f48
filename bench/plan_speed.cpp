// Processor seconds that compile, verify and simulate take, best of five, and
// the peak of the process:
//   plan_speed [SCHEDULE RANKS STAGES_PER_RANK MICROBATCHES]
// By default 1f1b 4096 1 512, whose goal is 2 s and 1.5 GiB.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <string>

#include "troupe/engine/plan/compile.hpp"
#include "troupe/engine/plan/simulate.hpp"
#include "troupe/engine/plan/verify.hpp"
#include "troupe/schedules/builtin.hpp"

namespace {

using steps = std::array<double, 3>;

// Of this process, as the machine may be busy; all that is measured runs on one
// thread.
double seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

steps measure(const troupe::schedule& lanes) {
  const auto begin = seconds();
  const auto plan = troupe::compile(lanes);
  const auto compiled = seconds();
  const auto found =
    troupe::verify(plan, {.kind = troupe::transport_kind::credited});
  const auto verified = seconds();
  const auto times = troupe::simulate(plan);
  const auto simulated = seconds();
  if (!found.progress || times.makespan <= 0)
    std::abort();
  return {compiled - begin, verified - compiled, simulated - verified};
}

double total(const steps& subject) {
  return subject[0] + subject[1] + subject[2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "1f1b";
  const auto number = [&](int index, int otherwise) {
    return argc > index ? std::atoi(argv[index]) : otherwise;
  };
  const auto lanes =
    troupe::make_schedule(name, {.ranks = number(2, 4096),
                                 .stages_per_rank = number(3, 1),
                                 .microbatches = number(4, 512)});
  auto best = measure(lanes);
  for (int i = 1; i < 5; ++i)
    best = std::min(best, measure(lanes), [](const auto& a, const auto& b) {
      return total(a) < total(b);
    });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
    "{} compile {:.3f} s, verify {:.3f} s, simulate {:.3f} s, total "
    "{:.3f} s, peak {} MiB\n",
    name, best[0], best[1], best[2], total(best), usage.ru_maxrss / 1024);
}
