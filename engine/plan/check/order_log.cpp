#include "troupe/engine/plan/check/order_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/lane_executor.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe {

namespace {

constexpr std::string_view heading = "troupe orders 1";

/// Runs executors by these orders, whose ops end as soon as they can. Returns a
/// rank that does not get to its end, if any.
std::optional<std::int32_t> stuck_rank(
  const plan& plan, const std::vector<std::vector<std::uint32_t>>& orders) {
  std::vector<lane_executor> ranks;
  for (std::int32_t r = 0; r < plan.ranks(); ++r) {
    ranks.emplace_back(plan, r);
    ranks.back().begin(orders[slot(r)]);
  }
  std::vector<char> ended(plan.ops.size(), 0);
  std::vector<std::uint32_t> running;
  const auto end = [&](std::uint32_t op) {
    const bool ends = std::ranges::all_of(
      plan.dependencies_of(plan.ops[op]),
      [&](std::uint32_t input) { return ended[input] != 0; });
    if (ends) {
      ended[op] = 1;
      for (auto& rank : ranks)
        rank.ended(op);
    }
    return ends;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& rank : ranks)
      while (const auto op = rank.next()) {
        rank.launched(*op);
        running.push_back(*op);
      }
    moved = std::erase_if(running, end) > 0;
  }
  const auto stuck = std::ranges::find_if_not(
    ranks, [](const lane_executor& rank) { return rank.finished(); });
  return stuck == ranks.end()
           ? std::nullopt
           : std::optional{static_cast<std::int32_t>(stuck - ranks.begin())};
}

}  // namespace

order_log::order_log(std::string_view text, std::string_view source)
  : source_(source) {
  line_reader lines{text, source};
  if (lines.next_line() != heading)
    lines.refuse(fmt::format("expected '{}'", heading));
  while (!lines.done()) {
    const auto line = lines.next_line();
    const auto colon = line.find(": ");
    const auto head = split_words(line.substr(0, colon));
    const auto number = [&](std::size_t word) {
      return word < head.size() ? parse_number<std::int64_t>(head[word])
                                : std::nullopt;
    };
    const auto step = number(1), replica = number(3), rank = number(5);
    if (colon == std::string_view::npos || head.size() != 6 || head[0] != "step"
        || head[2] != "replica" || head[4] != "rank" || !step || !replica
        || !rank || *replica < 0 || *rank < 0 || *replica > INT32_MAX
        || *rank > INT32_MAX)
      lines.refuse("expected 'step N replica D rank R: ops'");
    auto& ops = lines_[{*step, static_cast<std::int32_t>(*replica),
                        static_cast<std::int32_t>(*rank)}];
    if (!ops.empty())
      lines.refuse("the rank's order of this step is given twice");
    for (const auto word : split_words(line.substr(colon + 2)))
      ops.emplace_back(word);
  }
}

step_orders order_log::orders_of(const plan& plan, std::int32_t data_ranks,
                                 std::int64_t step) const {
  const auto refuse = [&](const std::string& why) {
    fail(error_code::invalid_argument, "{}, step {}: {}", source_, step, why);
  };
  step_orders orders;
  for (std::int32_t d = 0; d < data_ranks; ++d) {
    std::vector<std::vector<std::uint32_t>> of_replica;
    for (std::int32_t r = 0; r < plan.ranks(); ++r) {
      const auto line = lines_.find({step, d, r});
      if (line == lines_.end())
        refuse(
          fmt::format("the log has no order for replica {}, rank {}; replay "
                      "with the logged numbers of steps, replicas and ranks",
                      d, r));
      std::unordered_map<std::string, std::uint32_t> numbers;
      for (const auto op : plan.ops_of(r))
        numbers.emplace(to_text(plan, op), op);
      auto& order = of_replica.emplace_back();
      for (const auto& word : line->second) {
        const auto found = numbers.extract(word);
        if (found.empty())
          refuse(fmt::format("'{}' is not a remaining op of rank {} in {}",
                             printable(word), r, plan.schedule_name));
        order.push_back(found.mapped());
      }
      if (!numbers.empty())
        refuse(
          fmt::format("{} of rank {} is missing", numbers.begin()->first, r));
    }
    if (const auto rank = stuck_rank(plan, of_replica))
      refuse(fmt::format("rank {} could not run its ops in this order", *rank));
    std::ranges::move(of_replica, std::back_inserter(orders));
  }
  return orders;
}

order_log load_order_log(const std::string& path) {
  return {read_file(path), printable(path)};
}

std::string order_log_heading() {
  return fmt::format("{}\n", heading);
}

std::string order_log_line(const plan& plan, std::int64_t step,
                           std::int32_t data_rank, std::int32_t rank,
                           const std::vector<std::uint32_t>& ops) {
  auto line = fmt::format("step {} replica {} rank {}:", step, data_rank, rank);
  for (const auto op : ops)
    line += ' ' + to_text(plan, op);
  return line + '\n';
}

}  // namespace troupe
