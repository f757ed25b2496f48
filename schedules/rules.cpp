#include "troupe/schedules/rules.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

constexpr auto never = std::numeric_limits<double>::infinity();
constexpr op_kind kinds[]{op_kind::forward, op_kind::backward,
                          op_kind::input_backward, op_kind::weight_backward};

// Lower ranks come first.
double rank_by(preference means, const lane_rules& rules, const op& what) {
  switch (means) {
    case preference::backward:
      return is_backward(what.kind) ? 0 : 1;
    case preference::forward:
      return is_backward(what.kind) ? 1 : 0;
    case preference::deep_stage:
      return -what.stage;
    case preference::shallow_stage:
      return what.stage;
    case preference::early_microbatch:
      return what.microbatch;
    case preference::early_start:
      return rules.start(what);
    default:
      return what.kind == op_kind::weight_backward ? 1 : 0;
  }
}

class paper_run {
 public:
  paper_run(schedule& lanes, const lane_rules& rules)
    : lanes_{lanes},
      rules_{rules},
      done_(slot(lanes.stages())),
      free_at_(lanes.lanes.size(), 0),
      held_(lanes.lanes.size(), 0),
      stages_(lanes.lanes.size()) {
    for (std::int32_t stage = 0; stage < lanes.stages(); ++stage)
      stages_[slot(lanes.placement.rank_of(stage))].push_back(stage);
    for (std::int32_t rank = 0; rank < lanes.ranks(); ++rank)
      looks_.emplace(0, rank);
  }

  void run() {
    while (!looks_.empty()) {
      const auto [time, rank] = looks_.top();
      looks_.pop();
      if (free_at_[slot(rank)] > time)
        continue;
      if (const auto next = choose(rank, time))
        start(rank, *next, time);
    }
    check_finished();
  }

 private:
  using look = std::pair<double, std::int32_t>;
  // End times of a stage's ops, by microbatch.
  std::vector<double>& ends(std::int32_t stage, op_kind kind) {
    return done_[slot(stage)][slot(kind)];
  }

  bool in_use(op_kind kind) const {
    return kind == op_kind::forward
           || (kind == op_kind::backward) != rules_.split_backward;
  }

  double duration(const op& what) const {
    if (rules_.duration)
      return rules_.duration(what);
    switch (what.kind) {
      case op_kind::forward:
        return rules_.forward;
      case op_kind::backward:
        return rules_.input_backward + rules_.weight_backward;
      case op_kind::input_backward:
        return rules_.input_backward;
      default:
        return rules_.weight_backward;
    }
  }

  double end_of(std::int32_t stage, op_kind kind, std::int32_t microbatch) {
    const auto& times = ends(stage, kind);
    return slot(microbatch) < times.size() ? times[slot(microbatch)] : never;
  }

  double message(std::int32_t rank, std::int32_t other) const {
    return rank == other            ? 0
           : rules_.message_between ? rules_.message_between(rank, other)
                                    : rules_.message;
  }

  // When a result of `sender` reaches the rank of `receiver`.
  double arrival(std::int32_t sender, std::int32_t receiver, op_kind kind,
                 std::int32_t microbatch) {
    const auto& placement = lanes_.placement;
    return end_of(sender, kind, microbatch)
           + message(placement.rank_of(sender), placement.rank_of(receiver));
  }

  double ready_at(const op& what) {
    if (what.kind == op_kind::forward)
      return what.stage == 0 ? 0
                             : arrival(what.stage - 1, what.stage, what.kind,
                                       what.microbatch);
    const auto own =
      end_of(what.stage,
             what.kind == op_kind::weight_backward ? op_kind::input_backward
                                                   : op_kind::forward,
             what.microbatch);
    if (what.kind == op_kind::weight_backward
        || what.stage == lanes_.stages() - 1)
      return own;
    return std::max(
      own, arrival(what.stage + 1, what.stage, what.kind, what.microbatch));
  }

  bool within_limits(std::int32_t rank, const op& what) {
    return is_backward(what.kind)
           || ((!rules_.in_flight_limit
                || held_[slot(rank)] < rules_.in_flight_limit(rank))
               && (!rules_.stage_limit
                   || what.microbatch - passed_back(what.stage)
                        < rules_.stage_limit(what.stage)));
  }

  // Microbatches whose gradients have left the stage.
  std::int32_t passed_back(std::int32_t stage) {
    return static_cast<std::int32_t>(ends(stage, rules_.split_backward
                                                   ? op_kind::input_backward
                                                   : op_kind::backward)
                                       .size());
  }

  bool prefers(const op& a, const op& b) const {
    for (const auto means : rules_.prefer)
      if (const auto x = rank_by(means, rules_, a),
          y = rank_by(means, rules_, b);
          x != y)
        return x < y;
    return std::pair{a.microbatch, a.stage} < std::pair{b.microbatch, b.stage};
  }

  // The next op of each stage and kind is a candidate.
  std::optional<op> choose(std::int32_t rank, double time) {
    std::optional<op> best;
    for (const auto stage : stages_[slot(rank)])
      for (const auto kind : kinds) {
        const auto next = static_cast<std::int32_t>(ends(stage, kind).size());
        const op what{.stage = stage, .microbatch = next, .kind = kind};
        if (in_use(kind) && next < lanes_.microbatches && ready_at(what) <= time
            && within_limits(rank, what) && (!best || prefers(what, *best)))
          best = what;
      }
    return best;
  }

  void start(std::int32_t rank, const op& what, double time) {
    const auto end = time + duration(what);
    lanes_.lanes[slot(rank)].push_back(what);
    ends(what.stage, what.kind).push_back(end);
    held_[slot(rank)] += what.kind == op_kind::forward ? 1 : 0;
    held_[slot(rank)] -= frees_activation(what.kind) ? 1 : 0;
    free_at_[slot(rank)] = end;
    looks_.emplace(end, rank);
    const auto target = what.stage + (is_backward(what.kind) ? -1 : 1);
    if (target < 0 || target >= lanes_.stages())
      return;
    const auto other = lanes_.placement.rank_of(target);
    looks_.emplace(end + message(rank, other), other);
  }

  void check_finished() {
    const auto stuck = [&](std::int32_t rank) {
      const auto kinds_in_use = rules_.split_backward ? 3U : 2U;
      return lanes_.lanes[slot(rank)].size() < stages_[slot(rank)].size()
                                                 * slot(lanes_.microbatches)
                                                 * kinds_in_use;
    };
    for (std::int32_t rank = 0; rank < lanes_.ranks(); ++rank)
      if (stuck(rank))
        fail(error_code::deadlock,
             "the rules leave rank {} nothing to start after {} ops, when it "
             "holds {} activations; raise its limit",
             rank, lanes_.lanes[slot(rank)].size(), held_[slot(rank)]);
  }

  schedule& lanes_;
  const lane_rules& rules_;
  std::vector<std::array<std::vector<double>, 4>> done_;  // by kind
  std::vector<double> free_at_;                           // by rank
  std::vector<std::int32_t> held_;                        // by rank
  std::vector<std::vector<std::int32_t>> stages_;         // by rank
  std::priority_queue<look, std::vector<look>, std::greater<>> looks_;
};

}  // namespace

schedule build_by_rules(const placement& placement, std::int32_t microbatches,
                        const lane_rules& rules, std::string name) {
  check_sizes(placement, microbatches, 1);
  if (!rules.start
      && std::ranges::count(rules.prefer, preference::early_start) > 0)
    throw error(error_code::invalid_argument,
                "rules that prefer early_start need the function `start`");
  schedule result{.name = std::move(name),
                  .microbatches = microbatches,
                  .placement = placement,
                  .lanes = std::vector<lane>(slot(placement.ranks))};
  paper_run{result, rules}.run();
  validate(result);
  return result;
}

schedule build_by_rules(const schedule_shape& shape, const lane_rules& rules,
                        std::string name) {
  return build_by_rules(placement_of(shape), shape.microbatches, rules,
                        std::move(name));
}

}  // namespace troupe
