#include "troupe/engine/plan/compile/check_lanes.hpp"

#include <algorithm>
#include <bit>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/op_checker.hpp"

namespace troupe {

namespace {

// What a lane has done so far with the message of an edge.
enum : std::uint8_t { sent = 1, received = 2 };

struct stage_state {
  bool whole = false;
  bool has_update = false;
  std::int32_t updated = 0;  // within a step
};

// The state of a stage's gradients for one update.
struct gradient_state {
  std::uint32_t closed = 0;  // a bit for each kind of op at its end
  std::int32_t backwards_left = 0;
};

// Where what a forward keeps is, so far in the lane.
enum class whereabouts : std::uint8_t { nowhere, device, host, back, used };

class lane_checker : op_checker<plan, plan_op> {
 public:
  lane_checker(const plan& plan, const op_locator& locate)
    : op_checker{plan, locate},
      edges_(plan),
      computed_{marks(slot_count(plan)), marks(slot_count(plan))},
      moved_{marks(edges_.size()), marks(edges_.size())},
      states_(slot(plan.stages() * plan.placement.copies())),
      gradients_(states_.size() * slot(updates_of(plan))),
      kept_(slot_count(plan)) {}

  void run() {
    for_each_op([&](const plan_op& what) {
      check_range(what, none);
      check_microbatch(what);
      count(what);
    });
    for_each_op([&](const plan_op& what) { check(what); });
    for (const auto& what : order_.ops)
      check_sent(what);
    for_each_op([&](const plan_op& what) { check_used(what); });
    check_order();
    for_each_op([&](const plan_op& what) {
      within_pair_ = within_pair_ && index_ > 0;
      if (is_compute(what.kind))
        pass_copies(what);
      else if (is_copy(what.kind))
        check_copy(what);
    });
  }

 private:
  using marks = std::vector<std::uint8_t>;

  void count(const plan_op& what) {
    // Gathers behind updates alone leave parameters whole.
    state(what).has_update |= what.kind == plan_op_kind::update;
    sharded_ |=
      what.kind == plan_op_kind::release
      || (what.kind == plan_op_kind::gather && !state(what).has_update);
    if (frees_activation(what.kind))
      ++gradients(what).backwards_left;
  }

  std::uint8_t& computed(bool backward, const plan_op& what) {
    return computed_[backward ? 1 : 0][op_slot(order_, what)];
  }
  std::uint8_t& moved(bool backward, std::int32_t edge, const plan_op& what) {
    return moved_[backward ? 1 : 0][edges_(edge, what)];
  }

  stage_state& state(const plan_op& what) {
    return states_[slot(what.copy * order_.stages() + what.stage)];
  }

  gradient_state& gradients(const plan_op& what) {
    const auto stage = slot(what.copy * order_.stages() + what.stage);
    return gradients_[stage * slot(updates_of(order_))
                      + slot(update_number(order_, what.microbatch))];
  }

  void check(const plan_op& what) {
    if (is_compute(what.kind))
      check_compute(what);
    else if (is_transfer(what.kind))
      check_transfer(what);
    else if (is_of_gradients(what.kind))
      check_closing(what);
    else if (!is_copy(what.kind))  // check_copy
      check_shard(what);
  }

  // An op that ends gradients names their last microbatch if there are several
  // updates, and none otherwise.
  void check_microbatch(const plan_op& what) const {
    const bool named = what.microbatch != none;
    const bool has_several =
      is_of_gradients(what.kind) && order_.update.every > 0;
    if (is_of_microbatch(what.kind))
      return;
    if (named && !has_several)
      refuse(what, "applies to a whole stage; omit the microbatch");
    if (has_several
        && (!named
            || what.microbatch
                 != last_of_update(order_,
                                   update_number(order_, what.microbatch))))
      refuse(what,
             fmt::format(
               "does not name the last microbatch of an update, of {} each",
               order_.update.every));
  }

  // The edge of a transfer; refuses one that no edge takes.
  std::int32_t check_route(const plan_op& what) const {
    const auto edge = edge_of(order_, what);
    const bool upwards = what.peer > what.stage;
    const bool sends = what.kind == plan_op_kind::send;
    if (edge == none || (sends == is_gradient(what.stream)) == upwards)
      refuse(what, "has no stage at its other end; remove it");
    if (!crosses(order_.placement, what.stage, what.peer, what.copy))
      refuse(what, fmt::format("does not leave the rank: stage {} is on rank "
                               "{} too; remove it",
                               what.peer, rank_));
    if (!edges_.has(what))
      refuse(what, "is in another copy than the compute ops of its microbatch");
    return edge;
  }

  // One half of a message: once, and a send behind the op that makes the value,
  // a receive ahead of it.
  void check_transfer(const plan_op& what) {
    const auto backward = is_gradient(what.stream);
    const bool sends = what.kind == plan_op_kind::send;
    const auto half = sends ? sent : received;
    auto& seen = moved(backward, check_route(what), what);
    if ((seen & half) != 0)
      refuse(what, "appears twice; remove one");
    if ((computed(backward, what) != 0) != sends)
      refuse(what, sends ? "comes before the op whose result it sends"
                         : "comes after the op that needs it");
    seen |= half;
  }

  void check_compute(const plan_op& what) {
    if (sharded_ && !state(what).whole)
      refuse(what, "runs while its stage is sharded; UNSHARD it first");
    if (what.kind != plan_op_kind::forward
        && update_number(order_, what.microbatch) != state(what).updated
        && order_.update.every > 0)
      refuse(what, "comes before the update of the preceding microbatches");
    if (frees_activation(what.kind))
      --gradients(what).backwards_left;
    if (what.kind == plan_op_kind::weight_backward)
      return;
    const auto backward = what.kind != plan_op_kind::forward;
    for (const auto& [giver, edge] : order_.graph.inputs(what.stage, backward))
      if (crosses(order_.placement, what.stage, giver, what.copy)
          && (moved(backward, edge, what) & received) == 0)
        refuse(what, fmt::format(
                       "needs {}, which does not come before it",
                       to_text(order_, transfer_of(what, plan_op_kind::receive,
                                                   backward, giver))));
    computed(backward, what) = 1;
  }

  void check_shard(const plan_op& what) {
    auto& whole = state(what).whole;
    const auto gathers = what.kind == plan_op_kind::gather;
    if (whole == gathers)
      refuse(what, gathers ? "has no effect: the stage is whole already"
                           : "has no effect: the stage is sharded already");
    whole = gathers;
  }

  // Checks that ops on a stage's gradients run once, after the last of them.
  void check_closing(const plan_op& what) {
    auto& own = gradients(what);
    const auto bit = 1U << static_cast<unsigned>(what.kind);
    if (!order_.training)
      refuse(what, "has no use where nothing is trained: no op is a backward");
    if ((own.closed & bit) != 0)
      refuse(what, "appears twice; remove one");
    if (own.closed > bit)
      refuse(what, fmt::format("comes after its stage's {}",
                               name_of_last(own.closed)));
    if (own.backwards_left != 0)
      refuse(what, fmt::format("comes before {} backwards of its stage",
                               own.backwards_left));
    if (traits_of(what).group == op_group::holders)
      check_sum(what);
    own.closed |= bit;
    if (what.kind == plan_op_kind::update)
      ++state(what).updated;
  }

  static std::string_view name_of_last(std::uint32_t closed) {
    return traits_of(static_cast<plan_op_kind>(std::bit_width(closed) - 1))
      .name;
  }

  // Ranks that make the sums of two copies in different orders would wait for
  // each other.
  void check_sum(const plan_op& what) {
    const sum_place place{rank_, update_number(order_, what.microbatch),
                          what.copy};
    if (place < last_sum_)
      refuse(what,
             "comes after the sum of a later copy; on each rank those of copy "
             "0 come first");
    last_sum_ = place;
  }

  void check_sent(const plan_op& what) {
    if (!is_compute(what.kind) || what.kind == plan_op_kind::weight_backward)
      return;
    const auto backward = what.kind != plan_op_kind::forward;
    for (const auto& [reader, edge] :
         order_.graph.outputs(what.stage, backward)) {
      if (!crosses(order_.placement, what.stage, reader, what.copy)
          || (moved(backward, edge, what) & sent) != 0)
        continue;
      rank_ = order_.placement.rank_of(what.stage, what.copy);
      index_ = order_.lane(rank_).size();
      refuse(transfer_of(what, plan_op_kind::send, backward, reader),
             "is missing");
    }
  }

  void check_used(const plan_op& what) {
    if (what.kind == plan_op_kind::receive
        && computed(is_gradient(what.stream), what) == 0)
      refuse(what, "receives a value that no op of its rank reads; remove it");
  }

  // One end of a message: by ranks, in lane order; with the receiver's name.
  struct transfer {
    std::int32_t from;
    std::int32_t to;
    std::uint32_t op;
    plan_op received;
  };

  std::vector<transfer> transfers(plan_op_kind kind) const {
    std::vector<transfer> found;
    for (std::int32_t rank = 0; rank < order_.ranks(); ++rank)
      for (const auto i : order_.ops_of(rank))
        if (order_.ops[i].kind == kind)
          found.push_back(transfer_at(i, rank));
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) {
                       return std::tie(a.from, a.to) < std::tie(b.from, b.to);
                     });
    return found;
  }

  transfer transfer_at(std::uint32_t i, std::int32_t rank) const {
    const auto& what = order_.ops[i];
    const auto peer = order_.placement.rank_of(what.peer, what.copy);
    return what.kind == plan_op_kind::send
             ? transfer{rank, peer, i, other_half(what)}
             : transfer{peer, rank, i, what};
  }

  [[noreturn]] void refuse_transfer(const transfer& end,
                                    std::string_view reason) {
    rank_ = order_.ops[end.op].kind == plan_op_kind::send ? end.from : end.to;
    index_ = end.op - order_.first_op[slot(rank_)];
    refuse(order_.ops[end.op], reason);
  }

  [[noreturn]] void refuse_order(const transfer& send,
                                 const transfer& receive) {
    refuse_transfer(
      receive,
      fmt::format(
        "is where rank {} sends {} to rank {}: both ends need the same order",
        send.from, to_text(order_, order_.ops[send.op]), send.to));
  }

  // Both lists are ordered by ranks, so the k-th send must match the k-th
  // receive.
  void check_order() {
    const auto sends = transfers(plan_op_kind::send);
    const auto receives = transfers(plan_op_kind::receive);
    const auto ranks = [](const transfer& end) {
      return std::tie(end.from, end.to);
    };
    for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      const bool no_receive =
        i >= receives.size()
        || (i < sends.size() && ranks(sends[i]) < ranks(receives[i]));
      if (no_receive)
        refuse_transfer(sends[i], fmt::format("is received by no op of rank {}",
                                              sends[i].to));
      if (i >= sends.size() || ranks(receives[i]) < ranks(sends[i]))
        refuse_transfer(receives[i], fmt::format("is sent by no op of rank {}",
                                                 receives[i].from));
      if (sends[i].received != receives[i].received)
        refuse_order(sends[i], receives[i]);
    }
  }

  // Offloads and reloads: each goes once, behind its forward, and returns
  // before the backward that needs it.
  struct kept {
    whereabouts where = whereabouts::nowhere;
    std::int8_t copy = 0;
  };
  kept& kept_of(const plan_op& what) { return kept_[op_slot(order_, what)]; }

  void pass_copies(const plan_op& what) {
    within_pair_ = what.overlaps_next && !within_pair_;
    auto& own = kept_of(what);
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

  void check_copy(const plan_op& what) {
    if (!order_.training)
      refuse(what, "has no use where nothing is trained: no op is a backward");
    if (within_pair_)
      refuse(what,
             "is between the ops of a pair; put it before or after the pair");
    auto& own = kept_of(what);
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

  edge_slots edges_;
  marks computed_[2];  // results of forwards; of backwards; by op_slot
  marks moved_[2];     // activations; gradients; by edge_slots
  std::vector<stage_state> states_;
  std::vector<gradient_state> gradients_;  // by stage and update
  bool sharded_ = false;
  std::vector<kept> kept_;  // by op_slot
  bool within_pair_ = false;
  using sum_place = std::tuple<std::int32_t, std::int32_t, std::int8_t>;
  sum_place last_sum_{none, none, 0};  // rank, update and copy
};

}  // namespace

void check_lanes(const plan& plan, const op_locator& locate) {
  lane_checker{plan, locate}.run();
}

}  // namespace troupe
