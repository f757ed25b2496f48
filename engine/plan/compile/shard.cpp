#include "troupe/engine/plan/compile/shard.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

/// Writes the ops of one rank anew.
class lane_sharder {
 public:
  lane_sharder(std::span<const plan_op> lane, std::int32_t most_whole)
    : lane_{lane}, most_whole_{slot(most_whole)} {
    find_uses();
  }

  std::vector<plan_op> run() {
    for (const auto& what : lane_)
      add(what);
    end();
    return std::move(ops_);
  }

 private:
  // An op or a pair, and which of its ops.
  using use = std::pair<std::size_t, int>;

  void find_uses() {
    bool is_second = false;
    std::size_t unit = 0;
    for (const auto& what : lane_) {
      if (!is_compute(what.kind))
        continue;
      uses_[instance_of(what)].push_back({unit, is_second ? 1 : 0});
      is_second = what.overlaps_next && !is_second;
      unit += is_second ? 0 : 1;
    }
  }

  void add(const plan_op& what) {
    if (what.kind == plan_op_kind::receive) {
      held_.push_back(what);  // gathers are begun before it is waited for
      return;
    }
    if (is_compute(what.kind)) {
      if (!is_second_)
        change_whole_stages();
      is_second_ = what.overlaps_next && !is_second_;
      unit_ += is_second_ ? 0 : 1;
    } else if (traits_of(what.kind).type == op_class::closing) {
      end();
    }
    release_held();
    ops_.push_back(what);
  }

  void change_whole_stages() {
    const auto wanted = next_stages();
    for (const auto& each : std::set(whole_))
      if (std::ranges::find(wanted, each) == wanted.end())
        drop(each);
    for (const auto& each : wanted)
      if (!whole_.contains(each)) {
        whole_.insert(each);
        ops_.push_back(op_of(plan_op_kind::gather, each));
      }
  }

  // The stages that run next, from this op or pair on.
  std::vector<stage_instance> next_stages() {
    std::vector<std::pair<use, stage_instance>> next;
    for (auto& [stage, uses] : uses_) {
      auto& first = first_use_[stage];
      while (first < uses.size() && uses[first].first < unit_)
        ++first;
      if (first < uses.size())
        next.emplace_back(uses[first], stage);
    }
    std::ranges::sort(next);
    std::vector<stage_instance> stages;
    for (std::size_t i = 0; i < next.size(); ++i) {
      const auto of_same_pair =
        i > 0 && next[i].first.first == next[i - 1].first.first;
      if (stages.size() >= most_whole_ && !of_same_pair)
        break;
      stages.push_back(next[i].second);
    }
    return stages;
  }

  void drop(stage_instance stage) {
    whole_.erase(stage);
    ops_.push_back(op_of(plan_op_kind::release, stage));
  }

  void release_held() {
    ops_.insert(ops_.end(), held_.begin(), held_.end());
    held_.clear();
  }

  void end() {
    release_held();
    for (const auto& each : std::set(whole_))
      drop(each);
  }

  std::span<const plan_op> lane_;
  std::size_t most_whole_;
  std::map<stage_instance, std::vector<use>> uses_;
  std::map<stage_instance, std::size_t> first_use_;  // that is not over
  std::set<stage_instance> whole_;
  std::vector<plan_op> held_;
  std::vector<plan_op> ops_;
  std::size_t unit_ = 0;
  bool is_second_ = false;
};

void require_shardable(const plan& whole) {
  const auto gathers = [](const plan_op& what) {
    return what.kind == plan_op_kind::gather
           || what.kind == plan_op_kind::release;
  };
  if (std::ranges::any_of(whole.ops, gathers))
    fail(error_code::invalid_argument,
         "{}: the plan already gathers and releases parameters",
         whole.schedule_name);
  if (whole.update.every > 0)
    fail(error_code::invalid_argument,
         "{}: stages that update within a step can't be sharded",
         whole.schedule_name);
}

}  // namespace

plan sharded(const plan& whole, std::int32_t most_whole) {
  require_shardable(whole);
  return with_lanes(whole, [&](std::int32_t rank) {
    return lane_sharder{whole.lane(rank), most_whole}.run();
  });
}

plan sharded_updates(const plan& whole) {
  require_shardable(whole);
  return with_lanes(whole, [&](std::int32_t rank) {
    const auto lane = whole.lane(rank);
    std::vector<plan_op> ops(lane.begin(), lane.end());
    for (const auto& what : lane)
      if (what.kind == plan_op_kind::update)
        ops.push_back(op_of(plan_op_kind::gather, instance_of(what)));
    return ops;
  });
}

}  // namespace troupe
