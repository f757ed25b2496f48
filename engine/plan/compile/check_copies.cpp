#include "troupe/engine/plan/compile/check_lanes.hpp"

#include <vector>

#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/op_checker.hpp"

namespace troupe {

namespace {

/// Where what a forward keeps is, so far in the lane.
enum class whereabouts : std::uint8_t { nowhere, device, host, back, used };

class copy_checker : op_checker<plan, plan_op> {
 public:
  copy_checker(const plan& plan, const op_locator& locate)
    : op_checker{plan, locate}, kept_(slot_count(plan)) {}

  void run() {
    for_each_op([&](const plan_op& what) {
      within_pair_ = within_pair_ && index_ > 0;
      if (is_compute(what.kind))
        pass(what);
      else if (is_copy(what.kind))
        check(what);
    });
  }

 private:
  struct kept {
    whereabouts where = whereabouts::nowhere;
    std::int8_t copy = 0;
  };
  kept& of(const plan_op& what) { return kept_[op_slot(order_, what)]; }

  void pass(const plan_op& what) {
    within_pair_ = what.overlaps_next && !within_pair_;
    auto& own = of(what);
    if (what.kind == plan_op_kind::forward)
      own = {whereabouts::device, what.copy};
    if (!takes_gradient(what.kind))
      return;
    if (own.where == whereabouts::host)
      refuse(what,
             "needs its forward's activations, which are in host memory; "
             "RELOAD them first");
    own.where = whereabouts::used;
  }

  void check(const plan_op& what) {
    if (!order_.training)
      refuse(what, "has no use where nothing is trained: no op is a backward");
    if (within_pair_)
      refuse(what,
             "is between the ops of a pair; put it before or after the pair");
    auto& own = of(what);
    if (own.where == whereabouts::nowhere || own.copy != what.copy)
      refuse(what, "comes before the forward whose activation it copies");
    if (own.where == whereabouts::used)
      refuse(what, "comes after the backward of its activation");
    const bool goes = what.kind == plan_op_kind::offload;
    if (own.where == whereabouts::back
        || (goes && own.where == whereabouts::host))
      refuse(what, "appears twice; remove one");
    if (!goes && own.where == whereabouts::device)
      refuse(what, "comes before the OFFLOAD of its activation");
    own.where = goes ? whereabouts::host : whereabouts::back;
  }

  std::vector<kept> kept_;  // by op_slot
  bool within_pair_ = false;
};

}  // namespace

void check_copies(const plan& plan, const op_locator& locate) {
  copy_checker{plan, locate}.run();
}

}  // namespace troupe
