#include "troupe/engine/plan/compile/offload.hpp"

#include <algorithm>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

constexpr entry_reader offload_reader{"offload", "all and stage.N"};

std::int32_t least_stay_of(const offload_options& options) {
  return options.least_stay == 0 ? options.ahead + 2 : options.least_stay;
}

/// Writes the ops of ranks anew. A unit is a compute op or a pair.
class copy_placer {
 public:
  copy_placer(const plan& before, const offload_options& options)
    : before_{before}, options_{options}, marks_(slot_count(before)) {}

  std::vector<plan_op> run(std::int32_t rank) {
    lane_ = before_.lane(rank);
    choose();
    ops_.clear();
    waiting_.clear();
    std::int32_t unit = -1;
    bool second = false;  // the next compute op is a pair's second
    for (const auto& what : lane_) {
      const bool begins = is_compute(what.kind) && !second;
      if (!second && what.kind != plan_op_kind::send)
        put(plan_op_kind::offload, waiting_);
      if (begins)
        put(plan_op_kind::reload, reloads_[slot(++unit)]);
      ops_.push_back(what);
      if (!is_compute(what.kind))
        continue;
      if (what.kind == plan_op_kind::forward && mark(what).goes)
        waiting_.push_back(what);
      second = begins && what.overlaps_next;
    }
    return std::move(ops_);
  }

 private:
  struct slot_mark {
    std::int32_t forward = 0;  // unit
    bool goes = false;
  };
  slot_mark& mark(const plan_op& op) { return marks_[op_slot(before_, op)]; }

  /// Visits the compute ops of the lane, with their units.
  template <class Visit>
  std::int32_t for_each_unit(Visit visit) const {
    std::int32_t unit = 0;
    bool second = false;
    for (const auto& what : lane_) {
      if (!is_compute(what.kind))
        continue;
      visit(what, unit);
      second = what.overlaps_next && !second;
      unit += second ? 0 : 1;
    }
    return unit;
  }

  /// Marks the forwards whose activations go, and lists reloads by the unit
  /// that they stand before.
  void choose() {
    std::map<stage_instance, std::vector<plan_op>> stays;
    std::vector<std::int32_t> backwards(marks_.size(), none);
    const auto units = for_each_unit([&](const plan_op& what, auto unit) {
      if (what.kind == plan_op_kind::forward)
        mark(what) = {unit, false};
      if (takes_gradient(what.kind))
        backwards[op_slot(before_, what)] = unit;
    });
    reloads_.assign(slot(units), {});
    const auto least = least_stay_of(options_);
    for_each_unit([&](const plan_op& what, auto unit) {
      if (what.kind == plan_op_kind::forward
          && backwards[op_slot(before_, what)] - unit - 1 >= least)
        stays[instance_of(what)].push_back(what);
    });
    for (const auto& [stage, forwards] : stays)
      choose_of(stage, forwards);
    for_each_unit([&](const plan_op& what, auto unit) {
      if (takes_gradient(what.kind) && mark(what).goes)
        reloads_[slot(unit - options_.ahead)].push_back(what);
    });
  }

  void choose_of(stage_instance stage, const std::vector<plan_op>& forwards) {
    const auto fraction = options_.of(stage.stage);
    constexpr double rounding = 1e-9;
    double due = 0;
    for (const auto& each : forwards) {
      due += fraction;
      mark(each).goes = due > 1 - rounding;
      due -= mark(each).goes ? 1 : 0;
    }
  }

  void put(plan_op_kind kind, std::vector<plan_op>& of) {
    for (const auto& what : of)
      ops_.push_back(
        op_of(kind, instance_of(what), what.microbatch, what.slice));
    of.clear();
  }

  const plan& before_;
  const offload_options& options_;
  std::vector<slot_mark> marks_;  // by op_slot
  std::span<const plan_op> lane_;
  std::vector<std::vector<plan_op>> reloads_;  // by unit
  std::vector<plan_op> waiting_;  // forwards, for the op behind their sends
  std::vector<plan_op> ops_;
};

}  // namespace

bool offloads(const offload_options& options) {
  return options.fraction > 0
         || std::ranges::any_of(
           options.of_stage, [](const auto& each) { return each.second > 0; });
}

bool offloads(const plan& of) {
  return std::ranges::any_of(of.ops, [](const plan_op& what) {
    return what.kind == plan_op_kind::offload;
  });
}

offload_options parse_offload(std::string_view text) {
  offload_options options;
  if (const auto fraction =
        text == "all" ? std::optional(1.0) : parse_number<double>(text)) {
    options.fraction = *fraction;
    return options;
  }
  for (const auto& each : offload_reader.read(text)) {
    if (each.key == "all" && !each.stage)
      options.fraction = each.value;
    else if (each.key == "stage" && each.stage)
      options.of_stage[*each.stage] = each.value;
    else
      offload_reader.refuse(each.text, "the key is unknown");
  }
  return options;
}

offload_options load_offload(const std::string& path_or_text) {
  return load_entries(path_or_text, "offload", parse_offload);
}

void require_legal(const offload_options& options, std::int32_t stages) {
  const auto require_fraction = [](double fraction) {
    if (!(fraction >= 0 && fraction <= 1))
      fail(error_code::invalid_argument,
           "the fraction of activations to offload is {}; use 0 to 1",
           fraction);
  };
  require_fraction(options.fraction);
  for (const auto& [stage, fraction] : options.of_stage) {
    require_fraction(fraction);
    if (stage < 0 || stage >= stages)
      fail(error_code::invalid_argument,
           "can't offload activations of stage {}: there are {} stages", stage,
           stages);
  }
  if (options.ahead < 1)
    fail(error_code::invalid_argument,
         "reloads begin {} ops before the backward; use 1 or more",
         options.ahead);
  if (least_stay_of(options) <= options.ahead)
    fail(error_code::invalid_argument,
         "activations that stay for {} ops are offloaded, and reloaded {} ops "
         "ahead; offload only those that stay longer",
         options.least_stay, options.ahead);
}

plan offloaded(const plan& before, const offload_options& options) {
  require_legal(options, before.stages());
  if (offloads(before))
    fail(error_code::invalid_argument,
         "{}: the plan already offloads activations", before.schedule_name);
  copy_placer placer{before, options};
  return with_lanes(before,
                    [&](std::int32_t rank) { return placer.run(rank); });
}

}  // namespace troupe
