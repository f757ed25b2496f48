#include <cstdio>

#include "troupe/plan.hpp"

int main() {
  const auto lanes =
    troupe::make_schedule("1f1b", {.ranks = 2, .microbatches = 4});
  const auto times = troupe::simulate(troupe::compile(lanes));
  std::printf("makespan %.1f\n", times.makespan);
  return times.makespan > 0 ? 0 : 1;
}
