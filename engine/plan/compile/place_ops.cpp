#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/check/wait_graph.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/cost/turn_queue.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/op.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

// Which results of a (stage, microbatch, slice) exist.
constexpr std::uint8_t forwarded = 1;
constexpr std::uint8_t backwarded = 2;

class placer {
 public:
  placer(const schedule& lanes, const compile_options& options, plan& result)
    : lanes_{lanes},
      result_{result},
      turns_{lanes.ranks()},
      next_(lanes.lanes.size(), 0),
      done_(slot_count(lanes), 0) {
    take_graph(options.graph);
    take_tied(options.tied);
    result_.global_norm = result_.training && options.global_norm;
    if (result_.global_norm && lanes.update.every > 0)
      fail(error_code::invalid_argument,
           "{}: its stages update independently, so a norm of all stages "
           "(clipping, a dynamic loss scale) is not available",
           lanes.name);
    reduces_ = result_.training
               && (options.data_parallel > 1 || lanes.placement.copies() > 1);
    backwards_left_.assign(slot(lanes.stages()) * slot(updates_of(lanes)), 0);
    updated_.assign(slot(lanes.stages()), 0);
    measure_lanes();
  }

  void run() {
    while (!turns_.empty()) {
      const auto rank = turns_.pop_first();
      if (next_[slot(rank)] == lanes_.lane(rank).size())
        continue;
      if (const auto blocker = blocker_of(rank); blocker != none) {
        turns_.wait(rank, blocker);
        continue;
      }
      take_turn(rank);
      turns_.push(rank);
      turns_.progressed(rank);
    }
    check_finished();
    if (result_.training && lanes_.update.every == 0)
      close_lanes();
  }

 private:
  void take_graph(const stage_graph& graph) {
    if (graph.stages() != 0 && graph.stages() != lanes_.stages())
      fail(error_code::invalid_argument,
           "{} has {} stages, the model's graph {}", lanes_.name,
           lanes_.stages(), graph.stages());
    if (graph.stages() != 0)
      result_.graph = graph;
  }

  void take_tied(const std::vector<std::int32_t>& stages) {
    for (const auto stage : stages)
      if (stage < 0 || stage >= lanes_.stages())
        fail(error_code::invalid_argument,
             "{} has {} stages, but stage {} holds tied parameters",
             lanes_.name, lanes_.stages(), stage);
    if (!result_.training)
      return;
    tied_ = stages;
    std::ranges::sort(tied_);
    tied_.erase(std::ranges::unique(tied_).begin(), tied_.end());
  }

  bool is_tied(std::int32_t stage) const {
    return std::ranges::binary_search(tied_, stage);
  }

  std::int32_t& backwards_left(const op& what) {
    return backwards_left_[update_slot(what.stage,
                                       update_number(lanes_, what.microbatch))];
  }
  std::size_t update_slot(std::int32_t stage, std::int32_t update) const {
    return slot(stage) * slot(updates_of(lanes_)) + slot(update);
  }

  // The number of ops that a compute op adds to its own lane.
  std::uint32_t width(const op& what) {
    if (frees_activation(what.kind))
      ++backwards_left(what);
    if (what.kind == op_kind::weight_backward)
      return 1;
    // Forwards receive along a stage's inputs and send along its outputs,
    // backwards the other way round.
    std::uint32_t ops = 1;
    for (const bool outputs : {false, true})
      for (const auto& [other, edge] :
           result_.graph.inputs(what.stage, outputs))
        ops += crosses(lanes_.placement, what.stage, other, what.copy) ? 1 : 0;
    return ops;
  }

  void measure_lanes() {
    std::vector<std::uint32_t> closing(lanes_.lanes.size(), 0);
    if (result_.training)
      for (const auto& each : lanes_.placement.instances())
        closing[slot(lanes_.placement.rank_of(each))] +=
          static_cast<std::uint32_t>(
            ((reduces_ ? 3 : 2) + (is_tied(each.stage) ? 1 : 0))
            * updates_of(lanes_));
    std::uint32_t total = 0;
    for (std::int32_t rank = 0; rank < lanes_.ranks(); ++rank) {
      result_.first_op.push_back(total);
      for (const auto& what : lanes_.lane(rank))
        total += width(what);
      total += closing[slot(rank)];
    }
    end_ = result_.first_op;
    result_.first_op.push_back(total);
    result_.ops.resize(total);
  }

  void append(std::int32_t rank, const plan_op& what) {
    result_.ops[end_[slot(rank)]++] = what;
  }

  // The first op whose result this op needs and that has not run, if any.
  std::optional<op> missing_input(const op& what) const {
    if (what.kind == op_kind::weight_backward)
      return std::nullopt;
    const auto backward = is_backward(what.kind);
    const auto bit = backward ? backwarded : forwarded;
    auto missing = what;
    missing.kind = backward ? op_kind::backward : op_kind::forward;
    for (const auto& [source, edge] :
         result_.graph.inputs(what.stage, backward)) {
      missing.stage = source;
      if (!has(missing, bit))
        return missing;
    }
    if (const auto last = missing_update(what))
      return last;
    missing.stage = what.stage;
    const auto slice = what.slice + (backward ? 1 : -1);
    missing.slice = static_cast<std::int16_t>(slice);
    return slice >= 0 && slice < lanes_.slices && !has(missing, bit)
             ? std::optional{missing}
             : std::nullopt;
  }

  // The last backward of an update whose parameters a forward reads, or behind
  // which a backward begins new gradients: that of a stage which holds tied
  // parameters waits for others.
  std::optional<op> missing_update(const op& what) const {
    const auto update = update_number(lanes_, what.microbatch);
    if (is_backward(what.kind))
      return lanes_.update.every > 0 && is_tied(what.stage)
               ? missing_holder(update - 1)
               : std::nullopt;
    if (lanes_.update.lag == update_rule::newest
        || update - lanes_.update.lag <= updated_[slot(what.stage)])
      return std::nullopt;
    auto missing = what;
    missing.kind = op_kind::backward;
    missing.microbatch = last_of_update(lanes_, update - lanes_.update.lag - 1);
    return missing;
  }

  // The last backward of an update on a stage that has not run all of them.
  std::optional<op> missing_holder(std::int32_t update) const {
    for (const auto stage : tied_)
      if (update >= 0 && backwards_left_[update_slot(stage, update)] != 0)
        return op{.stage = stage,
                  .microbatch = last_of_update(lanes_, update),
                  .kind = op_kind::backward};
    return std::nullopt;
  }

  bool has(const op& what, std::uint8_t bit) const {
    return (done_[op_slot(lanes_, what)] & bit) != 0;
  }

  std::optional<op> missing_input(std::int32_t rank) const {
    const auto* what = &lanes_.lane(rank)[next_[slot(rank)]];
    const auto missing = missing_input(*what);
    return missing || !what->overlaps_next ? missing : missing_input(what[1]);
  }

  std::int32_t blocker_of(std::int32_t rank) const {
    const auto missing = missing_input(rank);
    return missing ? lanes_.placement.rank_of(missing->stage, missing->copy)
                   : none;
  }

  void take_turn(std::int32_t rank) {
    const auto& what = lanes_.lane(rank)[next_[slot(rank)]++];
    place(rank, what);
    if (what.overlaps_next)
      take_turn(rank);
  }

  void place(std::int32_t rank, const op& what) {
    const auto placed = to_plan_op(what);
    append(rank, placed);
    if (what.kind != op_kind::weight_backward) {
      const auto backward = is_backward(what.kind);
      done_[op_slot(lanes_, what)] |= backward ? backwarded : forwarded;
      transfer(rank, placed, backward);
    }
    if (frees_activation(what.kind) && --backwards_left(what) == 0)
      end_gradients(what);
  }

  void end_gradients(const op& last) {
    const bool updates = lanes_.update.every > 0;
    const auto microbatch =
      updates ? last_of_update(lanes_, update_number(lanes_, last.microbatch))
              : none;
    if (reduces_)
      close(plan_op_kind::reduce, last.stage, microbatch);
    if (!updates)
      return;
    if (!is_tied(last.stage))
      return update({last.stage}, microbatch);
    if (!missing_holder(update_number(lanes_, last.microbatch))) {
      sum_tied(microbatch);
      update(tied_, microbatch);
    }
  }

  void update(const std::vector<std::int32_t>& stages,
              std::int32_t microbatch) {
    for (const auto stage : stages) {
      close(plan_op_kind::gradient_norm, stage, microbatch);
      close(plan_op_kind::update, stage, microbatch);
      ++updated_[slot(stage)];
    }
  }

  // One copy after the other: on all ranks in one order, as each is a
  // collective of its own.
  void sum_tied(std::int32_t microbatch) {
    const auto copies = static_cast<std::int8_t>(lanes_.placement.copies());
    for (std::int8_t copy = 0; copy < copies; ++copy)
      for (const auto stage : tied_)
        close(plan_op_kind::sum_tied, {stage, copy}, microbatch);
  }

  // An op of each copy of a stage.
  void close(plan_op_kind kind, std::int32_t stage, std::int32_t microbatch) {
    const auto copies = static_cast<std::int8_t>(lanes_.placement.copies());
    for (std::int8_t copy = 0; copy < copies; ++copy)
      close(kind, stage_instance{stage, copy}, microbatch);
  }

  void close(plan_op_kind kind, stage_instance which, std::int32_t microbatch) {
    append(lanes_.placement.rank_of(which), op_of(kind, which, microbatch));
  }

  void transfer(std::int32_t rank, const plan_op& what, bool backward) {
    for (const auto& [reader, edge] :
         result_.graph.outputs(what.stage, backward)) {
      if (!crosses(lanes_.placement, what.stage, reader, what.copy))
        continue;
      const auto send = transfer_of(what, plan_op_kind::send, backward, reader);
      append(rank, send);
      append(lanes_.placement.rank_of(reader, what.copy), other_half(send));
    }
  }

  void close_lanes() {
    sum_tied(none);
    for (const auto kind : {plan_op_kind::gradient_norm, plan_op_kind::update})
      for (std::int32_t stage = 0; stage < lanes_.stages(); ++stage)
        close(kind, stage, none);
  }

  void check_finished() const {
    std::vector<std::vector<wait_edge>> waits_for(lanes_.lanes.size());
    for (std::int32_t rank = 0; rank < lanes_.ranks(); ++rank)
      if (next_[slot(rank)] < lanes_.lane(rank).size())
        waits_for[slot(rank)].push_back({blocker_of(rank)});
    const auto cycle = smallest_cycle(waits_for);
    if (cycle.empty())
      return;
    std::string text;
    for (const auto rank : cycle)
      text += fmt::format("{}{}", text.empty() ? "" : "; ", wait_of(rank));
    fail(error_code::deadlock, "{}: the lanes wait for each other: {}{}",
         lanes_.name, text, hint_of_ties());
  }

  std::string hint_of_ties() const {
    if (tied_.empty() || lanes_.update.every == 0)
      return {};
    return fmt::format(
      "; stages {} hold tied parameters, and update together: on each of them, "
      "all backwards of an update must come before the first one of the next "
      "update on any of them",
      fmt::join(tied_, " and "));
  }

  std::string wait_of(std::int32_t rank) const {
    auto missing = missing_input(rank).value();
    const auto blocker = lanes_.placement.rank_of(missing.stage, missing.copy);
    // The backward that makes the input is either B or I.
    for (const auto& what : lanes_.lane(blocker))
      if (op_slot(lanes_, what) == op_slot(lanes_, missing)
          && is_backward(what.kind) == is_backward(missing.kind)
          && what.kind != op_kind::weight_backward)
        missing.kind = what.kind;
    return fmt::format(
      "rank {} at {} waits for {}, which comes later on rank {}", rank,
      to_text(lanes_, lanes_.lane(rank)[next_[slot(rank)]]),
      to_text(lanes_, missing), blocker);
  }

  const schedule& lanes_;
  plan& result_;
  turn_queue turns_;
  bool reduces_ = false;
  std::vector<std::size_t> next_;             // by rank, into its lane
  std::vector<std::uint32_t> end_;            // by rank, into result_.ops
  std::vector<std::uint8_t> done_;            // by op_slot
  std::vector<std::int32_t> backwards_left_;  // by stage and update, all copies
  std::vector<std::int32_t> updated_;         // by stage: so often
  std::vector<std::int32_t> tied_;            // stages; empty: none
};

}  // namespace

void place_ops(const schedule& lanes, const compile_options& options,
               plan& result) {
  placer{lanes, options, result}.run();
}

}  // namespace troupe
