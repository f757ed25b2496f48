#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

constexpr auto absent = static_cast<std::uint32_t>(none);

class connector {
 public:
  connector(plan& plan, std::size_t most_dependencies)
    : plan_{plan},
      most_dependencies_{most_dependencies},
      edges_(plan),
      producer_{table(slot_count(plan)), table(slot_count(plan))},
      receive_{table(edges_.size()), table(edges_.size())} {}

  void run() {
    find_channels();
    index_ops();
    number_messages();
    list_dependencies();
  }

 private:
  using op_table = std::vector<std::uint32_t>;

  static op_table table(std::size_t size) { return op_table(size, absent); }

  std::size_t stage_copy(const plan_op& op) const {
    return slot(op.copy * plan_.stages() + op.stage);
  }

  // The stage's update that an op's gradients are part of.
  std::size_t update_slot(const plan_op& op) const {
    return update_slot(op, update_number(plan_, op.microbatch));
  }
  std::size_t update_slot(const plan_op& op, std::int32_t update) const {
    return stage_copy(op) * slot(updates_of(plan_)) + slot(update);
  }

  // Table entries of the ops that make or receive results of a direction.
  std::uint32_t& producer(bool backward, const plan_op& op) {
    return producer_[backward ? 1 : 0][op_slot(plan_, op)];
  }
  std::uint32_t& receive(bool backward, std::int32_t edge, const plan_op& op) {
    return receive_[backward ? 1 : 0][edges_(edge, op)];
  }

  // An op at the end of a stage's gradients, by update_slot; a copy, by
  // op_slot.
  std::uint32_t single(plan_op_kind kind, std::size_t place) const {
    return singles_[slot(kind)][place];
  }

  void index_ops() {
    const auto copies = slot(plan_.placement.copies());
    const auto stages = slot(plan_.stages()) * copies;
    const auto updates = stages * slot(updates_of(plan_));
    last_backward_ = table(updates);
    for (std::size_t kind = 0; kind < op_kinds; ++kind)
      singles_[kind] = table(
        is_copy(static_cast<plan_op_kind>(kind)) ? slot_count(plan_) : updates);
    shard_ = table(stages);
    uses_.resize(stages);
    last_update_ = table(stages);
    for (std::uint32_t i = 0; i < plan_.ops.size(); ++i)
      index_op(i, plan_.ops[i]);
  }

  void index_op(std::uint32_t i, const plan_op& op) {
    switch (op.kind) {
      case plan_op_kind::forward:
        producer(false, op) = i;
        break;
      case plan_op_kind::backward:
      case plan_op_kind::input_backward:
        producer(true, op) = i;
        [[fallthrough]];
      case plan_op_kind::weight_backward:
        last_backward_[update_slot(op)] = i;
        break;
      case plan_op_kind::send:
        ++plan_.channels[channel_of(op)].messages;
        break;
      case plan_op_kind::receive:
        ++receives_left_;
        receive(is_gradient(op.stream), edge_of(plan_, op), op) = i;
        break;
      default:
        if (is_copy(op.kind))
          singles_[slot(op.kind)][op_slot(plan_, op)] = i;
        else if (is_of_gradients(op.kind))
          singles_[slot(op.kind)][update_slot(op)] = i;
    }
  }

  using channel_key = std::tuple<std::int32_t, std::int32_t, bool>;

  // From rank, to rank, direction; of a copy of an edge.
  channel_key key_of(stage_edge edge, std::int8_t copy, bool backward) const {
    const auto low = plan_.placement.rank_of(edge.from, copy);
    const auto high = plan_.placement.rank_of(edge.to, copy);
    return backward ? channel_key{high, low, true}
                    : channel_key{low, high, false};
  }

  // Makes a channel for each directed pair of ranks and direction that edges
  // use, and the tables from edges to the channels of their messages.
  void find_channels() {
    std::map<channel_key, std::int32_t> numbers;
    for_each_route([&](std::int32_t, const channel_key& key, bool) {
      numbers.emplace(key, none);
    });
    for (auto& [key, number] : numbers) {
      number = static_cast<std::int32_t>(plan_.channels.size());
      const auto& [sender, receiver, backward] = key;
      plan_.channels.push_back(
        {.from_rank = sender, .to_rank = receiver, .backward = backward});
    }
    const auto copies = slot(plan_.placement.copies());
    for (auto& channels : channel_of_)
      channels.assign(plan_.graph.edges().size() * copies, none);
    for_each_route(
      [&](std::int32_t route, const channel_key& key, bool backward) {
        channel_of_[backward ? 1 : 0][slot(route)] = numbers.at(key);
      });
  }

  // A route is a copy of an edge.
  std::int32_t route_of(std::int32_t edge, std::int8_t copy) const {
    return edge * plan_.placement.copies() + copy;
  }

  template <class Visit>
  void for_each_route(Visit visit) const {
    const auto& edges = plan_.graph.edges();
    const auto copies = static_cast<std::int8_t>(plan_.placement.copies());
    for (const auto backward : {false, true})
      for (std::int8_t copy = 0; copy < copies; ++copy)
        for (std::int32_t i = 0; i < std::ssize(edges); ++i)
          if (const auto edge = edges[slot(i)];
              (plan_.training || !backward)
              && crosses(plan_.placement, edge.from, edge.to, copy))
            visit(route_of(i, copy), key_of(edge, copy, backward), backward);
  }

  std::size_t channel_of(const plan_op& send) const {
    const auto route = route_of(edge_of(plan_, send), send.copy);
    return slot(channel_of_[is_gradient(send.stream) ? 1 : 0][slot(route)]);
  }

  void number_messages() {
    std::vector<std::int32_t> next;
    std::int32_t total = 0;
    for (const auto& channel : plan_.channels) {
      next.push_back(total);
      total += channel.messages;
    }
    const auto first = next;
    plan_.messages.resize(slot(total));
    for (std::uint32_t i = 0; i < plan_.ops.size(); ++i) {
      auto& send = plan_.ops[i];
      if (send.kind != plan_op_kind::send)
        continue;
      const auto channel = channel_of(send);
      send.message = next[channel]++;
      connect_message(i, static_cast<std::int32_t>(channel),
                      send.message - first[channel]);
    }
    if (receives_left_ > 0)
      fail(error_code::internal, "{}: no op sends {}", plan_.schedule_name,
           to_text(plan_, *std::ranges::find_if(plan_.ops, [](const auto& op) {
                     return op.kind == plan_op_kind::receive
                            && op.message == none;
                   })));
  }

  void connect_message(std::uint32_t send_index, std::int32_t channel,
                       std::int32_t sequence) {
    const auto& send = plan_.ops[send_index];
    const auto backward = is_gradient(send.stream);
    const auto receiver = receive(backward, edge_of(plan_, send), send);
    if (receiver == absent)
      fail(error_code::internal, "{}: {} is received by no op",
           plan_.schedule_name, to_text(plan_, send));
    if (std::exchange(plan_.ops[receiver].message, send.message) == none)
      --receives_left_;
    plan_.messages[slot(send.message)] = {
      .channel = channel,
      .sequence = sequence,
      .producer = producer(backward, send),
      .send = send_index,
      .receive = receiver,
      .consumer = producer(backward, other_half(send))};
  }

  void depend_on(std::uint32_t op) {
    if (op == absent)
      return;
    if (plan_.dependencies.size() == most_dependencies_)
      fail(error_code::invalid_schedule,
           "{}: the ops have more than {} dependencies; use fewer edges or "
           "microbatches",
           plan_.schedule_name, most_dependencies_);
    plan_.dependencies.push_back(op);
  }

  void list_dependencies() {
    // Most compute ops have two, and a transfer beside them.
    plan_.dependencies.reserve(
      std::min(2 * plan_.ops.size(), most_dependencies_));
    for (std::uint32_t i = 0; i < plan_.ops.size(); ++i) {
      auto& op = plan_.ops[i];
      op.first_dependency =
        static_cast<std::uint32_t>(plan_.dependencies.size());
      if (is_compute(op.kind))
        compute_depends(op);
      else if (is_of_gradients(op.kind))
        gradients_depend(op);
      else
        other_depends(op);
      op.dependency_count =
        static_cast<std::uint32_t>(plan_.dependencies.size())
        - op.first_dependency;
      note_parameters(i, op);
    }
    if (plan_.global_norm)
      share_norms();
  }

  // Ops are visited in lane order: what a stage's parameters are at this point.
  void note_parameters(std::uint32_t i, const plan_op& op) {
    if (is_compute(op.kind))
      last_compute_ = i;
    if (is_compute(op.kind) && shard_[stage_copy(op)] != absent)
      uses_[stage_copy(op)].push_back(i);
    else if (op.kind == plan_op_kind::update)
      last_update_[stage_copy(op)] = i;
    else if (op.kind == plan_op_kind::gather
             || op.kind == plan_op_kind::release)
      shard_[stage_copy(op)] = i;
  }

  void compute_depends(const plan_op& op) {
    depend_on(shard_[stage_copy(op)]);  // the gather, if it is sharded
    if (op.kind == plan_op_kind::weight_backward)
      return depend_on(producer(true, op));
    const auto backward = op.kind != plan_op_kind::forward;
    if (backward) {
      depend_on(producer(false, op));
      depend_on(single(plan_op_kind::reload, op_slot(plan_, op)));
    }
    if (plan_.update.every > 0)
      depend_on(update_before(op));
    auto source = op;
    for (const auto& [giver, edge] : plan_.graph.inputs(op.stage, backward)) {
      source.stage = giver;
      depend_on(crosses(plan_.placement, op.stage, giver, op.copy)
                  ? receive(backward, edge, op)
                  : producer(backward, source));
    }
    auto neighbour = op;
    neighbour.slice = static_cast<std::int16_t>(op.slice + (backward ? 1 : -1));
    if (neighbour.slice >= 0 && neighbour.slice < plan_.slices)
      depend_on(producer(backward, neighbour));
  }

  // The update whose parameters a forward reads, or behind which the first
  // backward of a group starts new gradients; absent if there is none.
  std::uint32_t update_before(const plan_op& op) const {
    const bool reads = op.kind == plan_op_kind::forward;
    if (reads && plan_.update.lag == update_rule::newest)
      return last_update_[stage_copy(op)];
    if (!reads && op.microbatch % plan_.update.every != 0)
      return absent;
    const auto before =
      update_number(plan_, op.microbatch) - (reads ? plan_.update.lag : 0);
    return before > 0
             ? single(plan_op_kind::update, update_slot(op, before - 1))
             : absent;
  }

  void other_depends(const plan_op& op) {
    const auto message = slot(op.message);
    switch (op.kind) {
      case plan_op_kind::send:
        return depend_on(plan_.messages[message].producer);
      case plan_op_kind::receive:
        return depend_on(plan_.messages[message].send);
      case plan_op_kind::offload:
      case plan_op_kind::reload:
        // Nothing leaves, and no memory is taken, before its turn.
        for (const auto input :
             std::set{op.kind == plan_op_kind::offload
                        ? producer(false, op)
                        : single(plan_op_kind::offload, op_slot(plan_, op)),
                      last_compute_})
          depend_on(input);
        return;
      case plan_op_kind::gather:
        depend_on(last_update_[stage_copy(op)]);
        return depend_on(shard_[stage_copy(op)]);
      case plan_op_kind::release:
        depend_on(shard_[stage_copy(op)]);
        for (const auto use : std::exchange(uses_[stage_copy(op)], {}))
          depend_on(use);  // some may overtake others
        return;
      default:
        return;
    }
  }

  // On the gradients of all members of the op's group in the plan, which other
  // replicas have, too.
  void gradients_depend(const plan_op& op) {
    auto member = op;
    switch (traits_of(op.kind).group) {
      case op_group::none:
        if (op.kind != plan_op_kind::update || !plan_.global_norm)
          depend_on(gradients_before(op));
        return;
      case op_group::instances:
        for (member.copy = 0; member.copy < plan_.placement.copies();
             ++member.copy)
          depend_on(gradients_before(member));
        return;
      case op_group::holders:
        for (member.stage = 0; member.stage < plan_.stages(); ++member.stage)
          if (single(op.kind, update_slot(member)) != absent)
            depend_on(gradients_before(member));
    }
  }

  // The last op on the gradients of a stage ahead of those of the op's kind.
  std::uint32_t gradients_before(const plan_op& op) const {
    const auto place = update_slot(op);
    for (auto kind = slot(op.kind);
         is_of_gradients(static_cast<plan_op_kind>(--kind));)
      if (singles_[kind][place] != absent)
        return singles_[kind][place];
    return last_backward_[place];
  }

  void share_norms() {
    const auto begin = static_cast<std::uint32_t>(plan_.dependencies.size());
    for (const auto norm : singles_[slot(plan_op_kind::gradient_norm)])
      depend_on(norm);
    for (auto& op : plan_.ops)
      if (op.kind == plan_op_kind::update) {
        op.first_dependency = begin;
        op.dependency_count =
          static_cast<std::uint32_t>(plan_.dependencies.size()) - begin;
      }
  }

  plan& plan_;
  std::size_t most_dependencies_;
  edge_slots edges_;
  op_table producer_[2];    // F; B or I; by op_slot
  op_table receive_[2];     // of activations; of gradients; by edge_slots
  op_table last_backward_;  // by update_slot
  std::array<op_table, op_kinds> singles_;
  std::uint32_t last_compute_ = absent;  // so far in the lane
  op_table shard_;                       // ... and the last gather or release
  std::vector<op_table> uses_;           // ... and the compute ops since
  op_table last_update_;
  std::vector<std::int32_t> channel_of_[2];  // by route
  std::size_t receives_left_ = 0;            // of no message
};

}  // namespace

void connect(plan& result, std::size_t most_dependencies) {
  connector{result, most_dependencies}.run();
}

}  // namespace troupe
