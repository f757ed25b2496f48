#include "troupe/engine/plan/cost/costs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <random>
#include <set>
#include <string_view>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

/// "f, b, i, w, unshard, ... and bandwidth".
std::string all_cost_keys() {
  std::string keys;
  for (const auto* row : op_rows)
    if (!is_transfer(row->kind))
      keys += fmt::format("{}, ", row->cost_key);
  return keys + "message, bytes and bandwidth";
}

const entry_reader& cost_reader() {
  static const auto keys = all_cost_keys();
  static const entry_reader reader{
    .what = "costs", .keys = keys, .has_links = true};
  return reader;
}

bool is_of_messages(std::string_view key) {
  return key == traits_of(plan_op_kind::send).cost_key || key == "bytes"
         || key == "bandwidth";
}

plan_op_kind kind_of(const keyed_number& read) {
  if (is_of_messages(read.key)) {
    if (read.stage)
      cost_reader().refuse(
        read.text,
        "a message belongs to a link, as in message.0-1=2 for ranks 0 and 1");
    return plan_op_kind::send;
  }
  const auto* found =
    std::ranges::find(op_actions, read.key, &op_traits::cost_key);
  if (found == op_actions.end() || found->cost_key.empty())
    cost_reader().refuse(read.text, "the key is unknown");
  if (read.link)
    cost_reader().refuse(read.text,
                         "only messages belong to a link; give a stage");
  return found->kind;
}

/// Latency, bytes and bandwidth: of a link, or of all where it has none.
class message_entries {
 public:
  explicit message_entries(const std::vector<keyed_number>& all) {
    for (const auto& each : all)
      of_key_[each.key].emplace(each.link, &each);
    for (const auto& each : all)
      if (each.key == "bandwidth" && each.value == 0)
        cost_reader().refuse(each.text, "no message would ever arrive");
      else if (each.key == "bytes")
        require(each, "bandwidth");
      else if (each.key == "bandwidth")
        require(each, "bytes");
  }

  message_time of(std::optional<rank_pair> link) const {
    const auto* latency = find("message", link);
    const auto* bytes = find("bytes", link);
    const auto* bandwidth = find("bandwidth", link);
    const auto transfer =
      bytes && bandwidth ? bytes->value / bandwidth->value : 0;
    if (transfer > largest_entry)
      cost_reader().refuse(bandwidth->text,
                           "a message takes longer than 1e15; use other units");
    return {.transfer = transfer, .latency = latency ? latency->value : 0};
  }

 private:
  const keyed_number* find(std::string_view key,
                           std::optional<rank_pair> link) const {
    const auto entries = of_key_.find(key);
    if (entries == of_key_.end())
      return nullptr;
    const auto& of_link = entries->second;
    auto found = of_link.find(link);
    if (found == of_link.end())
      found = of_link.find(std::nullopt);
    return found == of_link.end() ? nullptr : found->second;
  }

  // One without the other would have no effect.
  void require(const keyed_number& entry, std::string_view other) const {
    const bool fits =
      entry.link ? find(other, entry.link) != nullptr : of_key_.contains(other);
    if (!fits)
      cost_reader().refuse(entry.text,
                           fmt::format("it has no effect without {}", other));
  }

  std::map<std::string_view,
           std::map<std::optional<rank_pair>, const keyed_number*>>
    of_key_;
};

void set_messages(const std::vector<keyed_number>& read, op_costs& costs) {
  const message_entries entries{read};
  const auto all = entries.of(std::nullopt);
  costs.message = all.latency;
  costs.transfer = all.transfer;
  for (const auto& each : read)
    if (each.link)
      costs.of_link[*each.link] = entries.of(each.link);
}

using cost_entries = std::vector<op_costs::entry>;
using stage_number = std::optional<std::int32_t>;  // none: all stages

/// What entries give costs of.
class subjects {
 public:
  explicit subjects(const cost_entries& entries) {
    for (const auto& each : entries)
      all_.emplace(each.kind, each.stage);
  }

  bool have(plan_op_kind kind, stage_number stage) const {
    return all_.contains({kind, stage});
  }
  bool have_half(stage_number stage) const {
    return have(plan_op_kind::input_backward, stage)
           || have(plan_op_kind::weight_backward, stage);
  }
  bool have_backward(stage_number stage) const {
    return have(plan_op_kind::backward, stage) || have_half(stage);
  }

 private:
  std::set<std::pair<plan_op_kind, stage_number>> all_;
};

// Halves of a full backward, or their sum, that no entry gives, from those that
// one does; of a stage's row.
void complete_backwards(op_costs::by_kind& row, stage_number stage,
                        const subjects& covered) {
  const bool whole = covered.have(plan_op_kind::backward, stage);
  auto& backward = row[slot(plan_op_kind::backward)];
  auto& input = row[slot(plan_op_kind::input_backward)];
  auto& weight = row[slot(plan_op_kind::weight_backward)];
  if (const bool halves = covered.have_half(stage); whole && !halves)
    input = weight = backward / 2;
  else if (halves && !whole)
    backward = input + weight;
}

// A stage's row starts from the figures for all stages, which may come later in
// the text: so single stages are handled last.
op_costs make_costs(cost_entries entries) {
  op_costs costs;
  const subjects covered(entries);
  for (const auto& each : entries)
    if (!each.stage && each.kind != plan_op_kind::send)
      costs.of_kind[slot(each.kind)] = each.value;
  complete_backwards(costs.of_kind, {}, covered);
  for (const auto& each : entries) {
    if (!each.stage)
      continue;
    const auto row = slot(*each.stage);
    if (costs.of_stage.size() <= row)
      costs.of_stage.resize(row + 1, costs.of_kind);
    costs.of_stage[row][slot(each.kind)] = each.value;
  }
  for (std::size_t row = 0; row < costs.of_stage.size(); ++row)
    complete_backwards(costs.of_stage[row], static_cast<std::int32_t>(row),
                       covered);
  costs.entries = std::move(entries);
  return costs;
}

rank_pair link_of(const channel& each) {
  return std::minmax(each.from_rank, each.to_rank);
}

// A half of a backward that no entry gives follows from the whole, and the
// whole from its halves.
bool follows_from(plan_op_kind kind, const op_costs::entry& entry,
                  const subjects& covered) {
  const auto is_half = [](plan_op_kind each) {
    return each == plan_op_kind::input_backward
           || each == plan_op_kind::weight_backward;
  };
  if (entry.kind == plan_op_kind::backward)
    return is_half(kind) && !covered.have_half(entry.stage);
  return is_half(entry.kind) && kind == plan_op_kind::backward
         && !covered.have(kind, entry.stage);
}

}  // namespace

op_costs parse_costs(std::string_view text) {
  const auto read = cost_reader().read(text);
  cost_entries entries;
  for (const auto& each : read)
    entries.push_back({each, kind_of(each)});
  auto costs = make_costs(std::move(entries));
  set_messages(read, costs);
  return costs;
}

op_costs load_costs(const std::string& path_or_text) {
  return load_entries(path_or_text, "costs", parse_costs);
}

op_costs divided(op_costs costs, const division& by) {
  const auto divide = [&](op_costs::by_kind& row, const auto& stays) {
    for (const auto* each : op_rows)
      if (!is_transfer(each->kind) && !stays(each->kind))
        row[slot(each->kind)] /=
          by.stages * (is_of_microbatch(each->kind) ? by.slices : 1);
  };
  divide(costs.of_kind, [](plan_op_kind) { return false; });
  const subjects covered(costs.entries);
  // Without entries, the rows of stages are what a program has set.
  const auto rows = costs.entries.empty() ? 0 : costs.of_stage.size();
  for (std::size_t row = 0; row < rows; ++row) {
    const auto stage = static_cast<std::int32_t>(row);
    divide(costs.of_stage[row],
           [&](plan_op_kind kind) { return covered.have(kind, stage); });
    complete_backwards(costs.of_stage[row], stage, covered);
  }
  costs.message /= by.slices;
  costs.transfer /= by.slices;
  for (auto& [link, time] : costs.of_link)
    time = {time.transfer / by.slices, time.latency / by.slices};
  return costs;
}

op_costs costs_of_rank(op_costs costs, std::int32_t ranks) {
  if (costs.of_stage.empty())
    return costs;
  const subjects covered(costs.entries);
  std::set<plan_op_kind> given;
  for (std::size_t row = 0; row < costs.of_stage.size(); ++row) {
    const auto stage = static_cast<std::int32_t>(row);
    if (!covered.have(plan_op_kind::forward, stage)
        || !covered.have_backward(stage))
      fail(error_code::invalid_argument,
           "costs of single stages are added up, but stage {0} has no f.{0} or "
           "no b.{0}; give those of all stages, or the costs of a rank's "
           "layers, as f=1,b=2",
           stage);
  }
  for (const auto& each : costs.entries)
    if (each.stage)
      given.insert(each.kind);
  given.insert({plan_op_kind::backward, plan_op_kind::input_backward,
                plan_op_kind::weight_backward});
  for (const auto kind : given) {
    double sum = 0;
    for (const auto& row : costs.of_stage)
      sum += row[slot(kind)];
    costs.of_kind[slot(kind)] = sum / ranks;
  }
  costs.of_stage.clear();
  std::erase_if(costs.entries, [](const auto& each) { return each.stage; });
  return costs;
}

channel_times::channel_times(const plan& plan, const op_costs& costs)
  : free_from_(plan.channels.size(), 0) {
  times_.reserve(plan.channels.size());
  for (const auto& each : plan.channels)
    times_.push_back(costs.message_between(each.from_rank, each.to_rank));
}

channel_times::passage channel_times::pass(std::int32_t channel, double ready) {
  const auto& time = times_[slot(channel)];
  auto& free_from = free_from_[slot(channel)];
  const auto leaves = std::max(ready, free_from);
  free_from = leaves + time.transfer;
  return {leaves, free_from, free_from + time.latency};
}

void require_costs_of(const plan& plan, const op_costs& costs) {
  if (!costs.of_op.empty() && costs.of_op.size() != plan.ops.size())
    fail(
      error_code::invalid_argument,
      "got {} costs for a plan of {} ops; measure the plan that you simulate",
      costs.of_op.size(), plan.ops.size());
}

std::vector<double> parse_slow_ranks(std::string_view text) {
  constexpr entry_reader slow_ranks{"slow ranks", "rank.N, as in rank.2=1.3"};
  std::vector<double> factors;
  for (const auto& each : slow_ranks.read(text)) {
    if (each.key != "rank" || !each.stage)
      slow_ranks.refuse(each.text, "the key is unknown");
    const auto rank = slot(*each.stage);
    factors.resize(std::max(factors.size(), rank + 1), 1);
    factors[rank] = each.value;
  }
  return factors;
}

op_costs disturbed(op_costs costs, const plan& plan, const disturbance& how) {
  if (std::ssize(how.of_rank) > plan.ranks())
    fail(error_code::invalid_argument, "can't slow rank {}: {} has {} ranks",
         how.of_rank.size() - 1, plan.schedule_name, plan.ranks());
  std::mt19937_64 random(how.seed);
  // In (0, 1], as the standard's distributions differ between libraries.
  const auto uniform = [&] {
    return (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
  };
  std::vector<double> all;
  all.reserve(plan.ops.size());
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank) {
    const auto r = slot(rank);
    const auto slower = r < how.of_rank.size() ? how.of_rank[r] : 1;
    for (const auto op : plan.ops_of(rank)) {
      auto cost = costs.cost_of(op, plan.ops[op]) * slower;
      if (how.jitter > 0)  // Box and Muller's transform
        cost *= std::exp(how.jitter * std::sqrt(-2 * std::log(uniform()))
                         * std::cos(2 * std::numbers::pi * uniform()));
      all.push_back(cost);
    }
  }
  costs.of_op = std::move(all);
  return costs;
}

std::vector<std::string> without_effect(const op_costs& costs,
                                        const plan& plan) {
  const subjects covered(costs.entries);
  const auto has_effect = [&](const op_costs::entry& entry) {
    return entry.link ? std::ranges::find(plan.channels, *entry.link, link_of)
                          != plan.channels.end()
                      : std::ranges::any_of(plan.ops, [&](const plan_op& op) {
                          return (op.kind == entry.kind
                                  || follows_from(op.kind, entry, covered))
                                 && op.stage == entry.stage.value_or(op.stage);
                        });
  };
  std::vector<std::string> unused;
  for (const auto& entry : costs.entries)
    if (!has_effect(entry))
      unused.push_back(entry.text);
  return unused;
}

}  // namespace troupe
