// Seconds that compile, verify and simulate take, best of five:
//   plan_speed [SCHEDULE RANKS STAGES_PER_RANK MICROBATCHES]
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include "troupe/engine/plan/compile.hpp"
#include "troupe/engine/plan/simulate.hpp"
#include "troupe/engine/plan/verify.hpp"
#include "troupe/schedules/builtin.hpp"

namespace {

using steps = std::array<double, 3>;

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
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
    troupe::make_schedule(name, {.ranks = number(2, 1024),
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
