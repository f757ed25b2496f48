#include "troupe/cli/plan/searched_schedule.hpp"

#include <CLI/CLI.hpp>

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/cli/plan/checks.hpp"

namespace troupe::cli {

namespace {

std::vector<std::pair<std::string, placement>> placements(
  std::int32_t ranks, std::int32_t per_rank, const std::string& wanted) {
  if (wanted == "waves" && per_rank % 2 != 0)
    fail(error_code::invalid_argument,
         "--placement waves: --stages-per-rank must be even, but is {}",
         per_rank);
  std::vector<std::pair<std::string, placement>> all;
  if (wanted != "waves")
    all.emplace_back("looped", placement::looped(ranks, ranks * per_rank));
  if (wanted != "looped" && per_rank % 2 == 0)
    all.emplace_back("waves", placement::waves(ranks, ranks * per_rank));
  return all;
}

bool shorter(const placed_search& a, const placed_search& b) {
  return std::pair{a.result.period, a.result.makespan}
         < std::pair{b.result.period, b.result.makespan};
}

}  // namespace

void search_inputs::add_to(CLI::App& command, const std::string& when) {
  command
    .add_option("--costs", costs,
                when + "times of ops, as simulate takes them "
                "and `train --costs-out` writes them")
    ->type_name("ENTRIES|FILE");
  command
    .add_option("--sizes", sizes,
                when + "bytes of a microbatch, as simulate "
                "takes them")
    ->type_name("ENTRIES|FILE");
  add_memory_limit(command, when);
}

void search_inputs::add_memory_limit(CLI::App& command,
                                     const std::string& when) {
  command
    .add_option("--memory-limit", memory_limit,
                when + "most bytes that a rank may hold, by "
                "--sizes")
    ->check(number(0))
    ->type_name("BYTES");
}

bool search_inputs::given() const {
  return !costs.empty() || !sizes.empty() || memory_limit > 0;
}

search_problem problem_of(const schedule_shape& shape,
                          const search_inputs& inputs) {
  search_problem problem{.microbatches = shape.microbatches,
                         .slices = shape.slices,
                         .costs = load_costs(inputs.costs),
                         .memory_limit = inputs.memory_limit};
  const auto stages =
    std::int64_t{shape.ranks} * std::int64_t{shape.stages_per_rank};
  for (const auto& entry : problem.costs.entries)
    if (entry.stage >= stages)
      spdlog::warn("--costs: {} has no effect, as there are {} stages",
                   entry.text, stages);
  if (!inputs.sizes.empty())
    problem.sizes = load_sizes(inputs.sizes);
  else if (problem.memory_limit > 0)
    fail(error_code::invalid_argument, "--memory-limit needs --sizes");
  return problem;
}

placed_search search_placements(const search_problem& problem,
                                const schedule_shape& shape,
                                const std::string& placement) {
  std::optional<placed_search> best;
  std::optional<error> refused;
  std::string known;
  double known_period = 0;
  for (auto& [name, where] :
       placements(shape.ranks, shape.stages_per_rank, placement)) {
    auto placed = problem;
    placed.placement = std::move(where);
    try {
      placed_search found{name, search(placed)};
      if (!found.result.known.empty()
          && (known.empty() || found.result.known_period < known_period)) {
        known = found.result.known;
        known_period = found.result.known_period;
      }
      if (!best || shorter(found, *best))
        best = std::move(found);
    } catch (const error& reason) {
      refused = reason;
    }
  }
  if (!best)
    throw *refused;
  best->result.known = known;
  best->result.known_period = known_period;
  return std::move(*best);
}

schedule searched_schedule(const schedule_shape& shape,
                           const search_inputs& inputs,
                           std::int32_t data_parallel) {
  auto problem = problem_of(shape, inputs);
  problem.compiling.data_parallel = data_parallel;
  return search_placements(problem, shape).result.found;
}

}  // namespace troupe::cli
