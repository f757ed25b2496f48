#include "troupe/engine/plan/search/best_hosting.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "troupe/engine/plan/cost/simulate.hpp"

namespace troupe {

namespace {

using hosting = std::vector<std::int32_t>;

constexpr std::int64_t most_tried = 4096;          // hostings, if all are
constexpr int most_rounds = 100;                   // of moves that help
constexpr std::size_t most_simulated = 4'000'000;  // ops
constexpr auto unknown = std::numeric_limits<double>::infinity();
constexpr double as_good = 1.01;

/// What decides how long a replica's step takes on paper.
struct replica_case {
  std::vector<double> slowness;  // by rank
  std::vector<bool> crosses;     // by channel: between processes
  auto operator<=>(const replica_case&) const = default;
};

/// First the step, then the loads of all groups, the highest first: moves that
/// don't shorten the step yet are made if they relieve a group.
struct score {
  double step = 0;
  std::vector<double> loads;
  auto operator<=>(const score&) const = default;
};

class predictor {
 public:
  explicit predictor(const hosting_problem& problem) : problem_(problem) {
    const auto& plan = problem.plan;
    for (std::int32_t rank = 0; rank < plan.ranks(); ++rank) {
      auto& work = work_.emplace_back(0);
      for (const auto op : plan.ops_of(rank))
        if (takes_time(plan.ops[op].kind))
          work += problem.costs.cost_of(op, plan.ops[op]);
    }
  }

  /// `enough`: a step that is no shorter is of no use; its replicas are not
  /// simulated if the loads tell already.
  score of(const hosting& hosts, double enough = unknown) {
    score result{.loads = loads(hosts)};
    result.step = result.loads.front();
    for (std::int32_t d = 0; d < problem_.replicas && result.step <= enough;
         ++d)
      result.step = std::max(result.step, simulated(case_of(hosts, d)));
    return result;
  }

  /// Of all hostings.
  double bound() {
    std::vector<double> fastest(problem_.cores.size(), 0);  // by group
    for (const auto process : problem_.hosting) {
      const auto& its = problem_.processes[slot(process)];
      auto& speed = fastest[slot(its.group)];
      speed = std::max(speed, its.speed);
    }
    const auto capacity = std::inner_product(fastest.begin(), fastest.end(),
                                             problem_.cores.begin(), 0.0);
    const auto work = std::accumulate(work_.begin(), work_.end(), 0.0);
    const auto alone = simulated(
      {.slowness = std::vector(work_.size(), 1 / std::ranges::max(fastest)),
       .crosses = std::vector(problem_.plan.channels.size(), false)});
    return std::max(alone, problem_.replicas * work / capacity);
  }

 private:
  double slowness_of(std::int32_t process) const {
    return 1 / problem_.processes[slot(process)].speed;
  }

  std::vector<double> loads(const hosting& hosts) const {
    std::vector<double> all(problem_.cores.size(), 0);
    for (std::size_t n = 0; n < hosts.size(); ++n) {
      const auto group = slot(problem_.processes[slot(hosts[n])].group);
      all[group] +=
        work_[n % work_.size()] * slowness_of(hosts[n]) / problem_.cores[group];
    }
    std::ranges::sort(all, std::greater{});
    return all;
  }

  replica_case case_of(const hosting& hosts, std::int32_t replica) const {
    const auto ranks = problem_.plan.ranks();
    const auto host = [&](std::int32_t rank) {
      return hosts[slot(replica * ranks + rank)];
    };
    replica_case result;
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      result.slowness.push_back(slowness_of(host(rank)));
    for (const auto& link : problem_.plan.channels)
      result.crosses.push_back(host(link.from_rank) != host(link.to_rank));
    return result;
  }

  double simulated(const replica_case& which) {
    const auto [found, is_new] = known_.try_emplace(which, 0);
    if (!is_new)
      return found->second;
    const auto& plan = problem_.plan;
    if (simulated_ > most_simulated)
      return found->second = unknown;
    simulated_ += plan.ops.size();
    auto costs = disturbed(problem_.costs, plan, {.of_rank = which.slowness});
    for (std::size_t i = 0; i < plan.channels.size(); ++i)
      if (!which.crosses[i])
        costs.of_link[std::minmax(plan.channels[i].from_rank,
                                  plan.channels[i].to_rank)] = {};
    return found->second = simulate(plan, costs).makespan;
  }

  const hosting_problem& problem_;
  std::vector<double> work_;  // seconds of a step, by rank of a pipeline
  std::map<replica_case, double> known_;
  std::size_t simulated_ = 0;  // ops
};

struct search_of_hosting {
  const hosting_problem& problem;
  predictor predict{problem};
  hosting hosts = problem.hosting;  // processes that take part, ascending

  explicit search_of_hosting(const hosting_problem& of) : problem(of) {
    std::ranges::sort(hosts);
    hosts.erase(std::ranges::unique(hosts).begin(), hosts.end());
  }

  bool leaves_none_empty(const hosting& candidate) const {
    return std::ranges::all_of(hosts, [&](std::int32_t process) {
      return std::ranges::count(candidate, process) > 0;
    });
  }

  /// Whether all hostings can be tried.
  bool is_small() const {
    std::int64_t count = 1;
    for (std::size_t n = 0; n < problem.hosting.size(); ++n)
      if ((count *= std::ssize(hosts)) > most_tried)
        return false;
    return true;
  }

  /// The next one in the order of numbers whose digits are processes.
  bool advance(hosting& candidate) const {
    for (auto& process : candidate) {
      const auto next = std::ranges::upper_bound(hosts, process);
      process = next == hosts.end() ? hosts.front() : *next;
      if (next != hosts.end())
        return true;
    }
    return false;
  }

  void take_if_better(const hosting& candidate, hosting& best, score& least) {
    if (auto its = predict.of(candidate, least.step); its < least) {
      least = std::move(its);
      best = candidate;
    }
  }

  template <class Visitor>
  void visit_all(const Visitor& visit) const {
    hosting candidate(problem.hosting.size(), hosts.front());
    do
      if (leaves_none_empty(candidate))
        visit(candidate);
    while (advance(candidate));
  }

  std::ptrdiff_t moves_to(const hosting& candidate) const {
    std::ptrdiff_t moves = 0;
    for (std::size_t n = 0; n < candidate.size(); ++n)
      moves += candidate[n] != problem.hosting[n];
    return moves;
  }

  hosting best_of_all() {
    auto best = problem.hosting;
    auto least = predict.of(best);
    visit_all([&](const hosting& candidate) {
      take_if_better(candidate, best, least);
    });
    const auto enough = as_good * least.step;
    auto fewest = moves_to(best);
    visit_all([&](const hosting& candidate) {
      const auto moves = moves_to(candidate);
      if (moves >= fewest || predict.of(candidate, enough).step > enough)
        return;
      fewest = moves;
      best = candidate;
    });
    return best;
  }

  /// One round: the best move of one rank or swap of two.
  hosting best_neighbour(const hosting& from) {
    auto best = from;
    auto least = predict.of(from);
    auto candidate = from;
    const auto consider = [&] {
      if (leaves_none_empty(candidate))
        take_if_better(candidate, best, least);
    };
    for (std::size_t n = 0; n < from.size(); ++n) {
      for (const auto process : hosts) {
        candidate[n] = process;
        consider();
      }
      candidate[n] = from[n];
      for (std::size_t other = 0; other < n; ++other) {
        std::swap(candidate[n], candidate[other]);
        consider();
        std::swap(candidate[n], candidate[other]);
      }
    }
    return best;
  }

  hosting best_by_moves() {
    auto best = problem.hosting;
    for (int round = 0; round < most_rounds; ++round)
      if (auto next = best_neighbour(best); next != best)
        best = std::move(next);
      else
        break;
    return with_few_moves(std::move(best));
  }

  /// Lets ranks stay where they are as far as the step hardly gets longer.
  hosting with_few_moves(hosting found) {
    const auto enough = as_good * predict.of(found).step;
    for (std::size_t n = 0; n < found.size(); ++n) {
      const auto host = std::exchange(found[n], problem.hosting[n]);
      if (!leaves_none_empty(found) || predict.of(found).step > enough)
        found[n] = host;
    }
    return found;
  }
};

double bytes_moved(const hosting_problem& problem, const hosting& to) {
  const auto& places = problem.plan.placement;
  double bytes = 0;
  for (std::int32_t n = 0; n < std::ssize(to); ++n)
    if (to[slot(n)] != problem.hosting[slot(n)])
      for (const auto& which : places.instances_of(n % places.ranks))
        bytes += static_cast<double>(problem.state_bytes[slot(which.stage)]);
  return bytes;
}

}  // namespace

double hosting_choice::steps_to_pay() const {
  return then < now ? cost / (now - then)
                    : std::numeric_limits<double>::infinity();
}

double predicted_step(const hosting_problem& problem,
                      const std::vector<std::int32_t>& hosting) {
  return predictor(problem).of(hosting).step;
}

double least_step(const hosting_problem& problem) {
  return predictor(problem).bound();
}

hosting_choice best_hosting(const hosting_problem& problem,
                            const move_costs& moving) {
  search_of_hosting search(problem);
  hosting_choice choice{.hosting = search.is_small() ? search.best_of_all()
                                                     : search.best_by_moves()};
  choice.now = search.predict.of(problem.hosting).step;
  choice.then = search.predict.of(choice.hosting).step;
  if (choice.hosting != problem.hosting)
    choice.cost =
      moving.pause
      + bytes_moved(problem, choice.hosting) / moving.bytes_per_second;
  return choice;
}

}  // namespace troupe
