#include "troupe/engine/plan/order_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/op_text.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe {

namespace {

constexpr std::string_view heading = "troupe orders 1";

/// Whether the orders let every op end: each rank starts its next op once all
/// that it depends on has ended. Returns a rank that can't go on, if any.
std::optional<std::int32_t> stuck_rank(
  const plan& plan, const std::vector<std::vector<std::uint32_t>>& orders) {
  std::vector<char> ended(plan.ops.size(), 0);
  std::vector<std::size_t> next(orders.size(), 0);
  const auto can_end = [&](std::uint32_t op) {
    return std::ranges::all_of(
      plan.dependencies_of(plan.ops[op]),
      [&](std::uint32_t input) { return ended[input] != 0; });
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < orders.size(); ++r)
      for (; next[r] < orders[r].size() && can_end(orders[r][next[r]]);
           ++next[r]) {
        ended[orders[r][next[r]]] = 1;
        moved = true;
      }
  }
  for (std::size_t r = 0; r < orders.size(); ++r)
    if (next[r] < orders[r].size())
      return static_cast<std::int32_t>(r);
  return std::nullopt;
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
      lines.refuse("the rank's order of this step stands twice");
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
        refuse(fmt::format(
          "there is no order of replica {}, rank {}; replay as many steps, "
          "replicas and ranks as were logged",
          d, r));
      const auto first = plan.first_op[static_cast<std::size_t>(r)];
      std::unordered_map<std::string, std::uint32_t> numbers;
      for (std::uint32_t i = 0; i < plan.lane(r).size(); ++i)
        numbers.emplace(to_text(plan, first + i), first + i);
      auto& order = of_replica.emplace_back();
      for (const auto& word : line->second) {
        const auto found = numbers.extract(word);
        if (found.empty())
          refuse(fmt::format("'{}' is no further op of rank {} in {}",
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
