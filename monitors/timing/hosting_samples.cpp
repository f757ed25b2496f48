#include "troupe/monitors/timing/hosting_samples.hpp"

#include <algorithm>
#include <limits>

#include "troupe/base/median.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe {

namespace {

constexpr std::size_t most_kept = 1000;
/// A process that takes less than this longer counts as equally fast.
constexpr double equal_speed = 0.9;

std::int32_t process_of(const ops_event& rank, const rank_places& places) {
  const auto& source = rank.source;
  return places.process_of.at(
    slot(source.data_rank * rank.plan->ranks() + source.rank));
}

bool computes(const ops_event& rank, const op_record& op) {
  return takes_time(rank.plan->ops.at(op.op).kind);
}

/// What an op that runs in a group of cores all the time has got done by some
/// time.
class shared_time {
 public:
  /// `ranks`: whose ops run in the group.
  shared_time(const std::vector<ops_event*>& ranks, double cores) {
    std::vector<int> running(ranks.size(), 0);  // by rank: its ops
    std::int64_t busy = 0, before = 0;          // ranks
    double done = 0;
    for (const auto& each : changes_of(ranks)) {
      done +=
        static_cast<double>(each.at - before)
        * (busy > 0 ? std::min(1.0, cores / static_cast<double>(busy)) : 0);
      before = each.at;
      auto& ops = running[each.rank];
      busy -= ops > 0;
      ops += each.more;
      busy += ops > 0;
      times_.push_back(each.at);
      done_.push_back(done);
    }
  }

  /// `time`: when an op began or ended.
  double at(std::int64_t time) const {
    const auto found = std::ranges::lower_bound(times_, time);
    return done_[static_cast<std::size_t>(found - times_.begin())];
  }

 private:
  struct change {
    std::int64_t at = 0;
    std::size_t rank = 0;
    int more = 0;
  };
  static std::vector<change> changes_of(const std::vector<ops_event*>& ranks) {
    std::vector<change> changes;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      for (const auto& op : ranks[rank]->ops) {
        if (!computes(*ranks[rank], op))
          continue;
        changes.push_back({op.begin, rank, 1});
        changes.push_back({op.end, rank, -1});
      }
    std::ranges::stable_sort(changes, {}, &change::at);
    return changes;
  }

  std::vector<std::int64_t> times_;
  std::vector<double> done_;  // ns
};

}  // namespace

std::vector<ops_event> undisturbed(std::vector<ops_event> step,
                                   const rank_places& places) {
  for (std::size_t group = 0; group < places.cores.size(); ++group) {
    std::vector<ops_event*> here;
    for (auto& rank : step)
      if (places.group_of.at(slot(process_of(rank, places)))
          == static_cast<std::int32_t>(group))
        here.push_back(&rank);
    const shared_time shared(here, places.cores[group]);
    for (auto* rank : here)
      for (auto& op : rank->ops)
        op.end =
          op.begin
          + static_cast<std::int64_t>(shared.at(op.end) - shared.at(op.begin));
  }
  return step;
}

void hosting_samples::clear() {
  *this = {};
}

void hosting_samples::add(const std::vector<ops_event>& step,
                          const rank_places& places) {
  const auto keep = [](samples& to, std::int64_t ns) {
    to.push_back(1e-9 * static_cast<double>(std::max<std::int64_t>(ns, 0)));
    if (to.size() > most_kept)
      to.pop_front();
  };
  processes_ = places.group_of.size();
  ++steps_;
  for (const auto& rank : undisturbed(step, places)) {
    const auto times = op_times(*rank.plan, rank);
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto& done = rank.ops[i];
      const auto& op = rank.plan->ops.at(done.op);
      if (!computes(rank, done))
        continue;
      keep(ops_[{process_of(rank, places), op.stage, op.kind}], times[i]);
      if (done.arrived > 0)
        keep(messages_, done.arrived - done.left);
    }
  }
}

std::vector<double> hosting_samples::speeds_for(
  const std::map<where, double>& times,
  const std::vector<std::int64_t>& work) const {
  using kind_of_work = std::pair<std::int64_t, plan_op_kind>;
  // The least time of each process, then of all.
  std::map<kind_of_work, std::map<std::int32_t, double>> by_work;
  for (const auto& [key, seconds] : times) {
    const auto& [process, stage, kind] = key;
    auto& least = by_work[{work.at(slot(stage)), kind}];
    const auto found = least.try_emplace(process, seconds).first;
    found->second = std::min(found->second, seconds);
  }
  std::vector<samples> ratios(processes_);
  for (const auto& [which, least] : by_work) {
    auto fastest = std::numeric_limits<double>::infinity();
    for (const auto& [process, seconds] : least)
      fastest = std::min(fastest, seconds);
    for (const auto& [process, seconds] : least)
      if (least.size() > 1 && fastest > 0)
        ratios[slot(process)].push_back(fastest / seconds);
  }
  std::vector<double> speeds;
  for (const auto& each : ratios)
    speeds.push_back(
      each.empty() || median(each) >= equal_speed ? 1 : median(each));
  return speeds;
}

hosting_samples::result hosting_samples::measured(
  const std::vector<std::int64_t>& work) const {
  std::map<where, double> times;
  for (const auto& [key, all] : ops_)
    times[key] = median(all);
  result found{.speeds = speeds_for(times, work)};
  found.costs.of_kind = {};
  found.costs.of_stage.assign(work.size(), {});
  std::map<std::pair<std::int32_t, plan_op_kind>, int> processes;
  for (const auto& [key, seconds] : times) {
    const auto& [process, stage, kind] = key;
    auto& mean = found.costs.of_stage[slot(stage)][slot(kind)];
    mean += (seconds * found.speeds[slot(process)] - mean)
            / ++processes[{stage, kind}];
  }
  if (!messages_.empty())
    found.costs.message = lower_quartile(messages_);
  return found;
}

}  // namespace troupe
