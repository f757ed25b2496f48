#include "troupe/engine/plan/compile/compile.hpp"

#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

class input_finder {
 public:
  explicit input_finder(plan& result)
    : plan_{result},
      forward_(slot_count(result)),
      backward_(slot_count(result)) {
    for (std::uint32_t i = 0; i < plan_.ops.size(); ++i) {
      const auto& what = plan_.ops[i];
      if (what.kind == plan_op_kind::forward)
        forward_[op_slot(plan_, what)] = i;
      else if (takes_gradient(what.kind))
        backward_[op_slot(plan_, what)] = i;
    }
  }

  void run() {
    for (auto& what : plan_.ops) {
      what.first_dependency =
        static_cast<std::uint32_t>(plan_.dependencies.size());
      if (what.kind == plan_op_kind::forward && what.stage > 0)
        add(what, forward_, -1);
      if (takes_gradient(what.kind) && what.stage + 1 < plan_.stages())
        add(what, backward_, 1);
    }
  }

 private:
  void add(plan_op& what, const std::vector<std::uint32_t>& producers,
           std::int32_t step) {
    auto input = what;
    input.stage += step;
    plan_.dependencies.push_back(producers[op_slot(plan_, input)]);
    what.dependency_count = 1;
  }

  plan& plan_;
  std::vector<std::uint32_t> forward_;
  std::vector<std::uint32_t> backward_;  // B or I
};

}  // namespace

plan lane_plan(const schedule& lanes) {
  validate(lanes);
  plan result{.schedule_name = lanes.name,
              .microbatches = lanes.microbatches,
              .slices = lanes.slices,
              .training = is_training(lanes),
              .placement = lanes.placement,
              .graph = stage_graph::chain(lanes.stages()),
              .update = lanes.update};
  for (const auto& each : lanes.lanes) {
    result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
    for (const auto& what : each)
      result.ops.push_back(to_plan_op(what));
  }
  result.first_op.push_back(static_cast<std::uint32_t>(result.ops.size()));
  input_finder{result}.run();
  return result;
}

}  // namespace troupe
