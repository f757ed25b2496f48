#include "troupe/cli/plan/searched_schedule.hpp"

#include <CLI/CLI.hpp>

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/usual.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/find_schedule.hpp"

namespace troupe::cli {

namespace {

using placements = std::vector<std::pair<std::string, placement>>;

// dualpipe's, which refuses the shapes that it does not take.
placement bidirectional(const schedule_shape& shape) {
  return make_schedule("dualpipe", shape).placement;
}

placements placements_of(const schedule_shape& shape) {
  const auto stages = shape.ranks * shape.stages_per_rank;
  placements all{{"looped", placement::looped(shape.ranks, stages)}};
  if (shape.stages_per_rank % 2 == 0)
    all.emplace_back("waves", placement::waves(shape.ranks, stages));
  try {
    all.emplace_back("bidirectional", bidirectional(shape));
  } catch (const error&) {
  }
  return all;
}

placements placements_of(const schedule_shape& shape,
                         const std::string& wanted) {
  auto all = placements_of(shape);
  if (wanted == "best")
    return all;
  std::erase_if(all, [&](const auto& each) { return each.first != wanted; });
  if (all.empty() && wanted == "waves")
    fail(error_code::invalid_argument,
         "--placement waves: --stages-per-rank must be even, but is {}",
         shape.stages_per_rank);
  if (all.empty())
    all.emplace_back(wanted, bidirectional(shape));  // says why it can't be
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
  std::optional<placed_search> known;
  for (auto& [name, where] : placements_of(shape, placement)) {
    auto placed = problem;
    placed.placement = std::move(where);
    try {
      placed_search found{name, search(placed)};
      if (!found.result.known.empty()
          && (!known || found.result.known_period < known->result.known_period))
        known = found;
      if (!best || shorter(found, *best))
        best = std::move(found);
    } catch (const error& reason) {
      refused = reason;
    }
  }
  if (!best)
    throw *refused;
  if (known) {
    best->result.known = known->result.known;
    best->result.known_period = known->result.known_period;
    best->known_placement = known->placement;
  }
  return std::move(*best);
}

schedule named_schedule(const std::string& name, const schedule_shape& shape,
                        const search_inputs& inputs,
                        std::int32_t data_parallel) {
  if (name == search_name)
    return searched_schedule(shape, inputs, data_parallel);
  if (name.empty())
    return find_schedule(
      shape.slices > 1 ? usual_schedule_of_slices : usual_schedule, shape);
  try {
    return find_schedule(name, shape);
  } catch (const error& reason) {
    if (reason.code() != error_code::unknown_schedule)
      throw;
    fail(reason.code(), "{}; '{}' searches for one", reason.what(),
         search_name);
  }
}

schedule searched_schedule(const schedule_shape& shape,
                           const search_inputs& inputs,
                           std::int32_t data_parallel) {
  auto problem = problem_of(shape, inputs);
  problem.compiling.data_parallel = data_parallel;
  return search_placements(problem, shape).result.found;
}

}  // namespace troupe::cli
