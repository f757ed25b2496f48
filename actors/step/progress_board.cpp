#include "troupe/actors/step/progress_board.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/plan/values.hpp"

namespace troupe {

namespace {

// The parts of a packed entry begin at these bits, after the state.
constexpr int for_data_at = 8, input_at = 9, position_at = 12, ended_at = 44;
constexpr auto last_input =
  static_cast<std::uint8_t>((1 << (position_at - input_at)) - 1);
static_assert(ended_at - position_at
              == std::numeric_limits<std::uint32_t>::digits);

std::string what_it_waits_for(const plan& of, const plan_op& op, bool for_data,
                              std::uint8_t missing) {
  if (for_data)
    return "data from the loader";
  std::string text;
  std::uint8_t index = 0;
  for_each_input(of, op, [&](const value& input) {
    if (index++ == missing && input.from != input.to)
      text =
        fmt::format("the {} of stage {} (rank {})", to_text(input.kind),
                    input.from, of.placement.rank_of(input.from, input.copy));
  });
  if (!text.empty())
    return text;
  return is_of_gradients(op.kind) && op.kind != plan_op_kind::update
           ? "the reducer"
           : "the gradient norm of all stages";
}

}  // namespace

progress_board::progress_board(std::int32_t data_ranks, std::int32_t ranks)
  : ranks_(ranks), entries_(static_cast<std::size_t>(data_ranks * ranks)) {}

void progress_board::set(std::int32_t data_rank, std::int32_t rank, entry now) {
  entries_[static_cast<std::size_t>(data_rank * ranks_ + rank)].store(
    (std::uint64_t{now.ended} << ended_at)
      | (std::uint64_t{now.position} << position_at)
      | (std::uint64_t{std::min(now.input, last_input)} << input_at)
      | (std::uint64_t{now.for_data} << for_data_at)
      | static_cast<std::uint64_t>(now.doing),
    std::memory_order_relaxed);
}

std::vector<progress_board::entry> progress_board::snapshot() const {
  std::vector<entry> all;
  for (const auto& packed : entries_) {
    const auto value = packed.load(std::memory_order_relaxed);
    all.push_back({static_cast<std::uint32_t>(value >> position_at),
                   static_cast<state>(value & 0xff),
                   (value >> for_data_at & 1) != 0,
                   static_cast<std::uint8_t>(value >> input_at & last_input),
                   static_cast<std::uint32_t>(value >> ended_at)});
  }
  return all;
}

std::vector<rank_health> progress_board::look(const plan& of) const {
  std::vector<rank_health> all;
  for (const auto& [position, doing, for_data, missing, ended] : snapshot()) {
    const auto index = static_cast<std::int32_t>(all.size());
    all.push_back({index / ranks_, index % ranks_});
    if (doing == state::elsewhere)
      all.back().doing = doing;
    if (doing == state::idle || doing == state::elsewhere
        || position >= of.ops.size())
      continue;
    const auto& op = of.ops[position];
    all.back().doing = doing;
    all.back().stage = op.stage;
    all.back().op = to_text(of, op);
    if (doing == state::waiting)
      all.back().waits_for = what_it_waits_for(of, op, for_data, missing);
  }
  return all;
}

std::vector<std::string> progress_board::describe(const plan& of) const {
  std::vector<std::string> lines;
  for (const auto& each : look(of)) {
    if (each.doing == state::elsewhere)
      continue;
    auto line = fmt::format("rank {}", each.rank);
    if (static_cast<std::int32_t>(entries_.size()) > ranks_)
      line += fmt::format(" of replica {}", each.data_rank);
    if (each.doing == state::idle)
      line += " waits for the others to end the step";
    else if (each.doing == state::running)
      line += " runs " + each.op;
    else
      line += fmt::format(" waits at {} for {}", each.op, each.waits_for);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace troupe
