#include "troupe/engine/plan/compile/overlapped_pairs.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace troupe {

namespace {

/// Two instances of a rank, by their places in `placement::instances`.
using instance_pair = std::pair<std::size_t, std::size_t>;

std::set<instance_pair> pairs_of(const plan& plan, std::int32_t rank) {
  std::set<instance_pair> found;
  for (const auto op : plan.ops_of(rank))
    if (const auto partner = partner_of(plan, op))
      found.insert(
        std::minmax(plan.placement.index_of(instance_of(plan.ops[op])),
                    plan.placement.index_of(instance_of(plan.ops[*partner]))));
  return found;
}

constexpr std::uint8_t open = 2;  // neither stream yet

/// Gives an instance, and those that pairs connect with it, their streams.
void spread(const std::set<instance_pair>& pairs, std::size_t from,
            std::uint8_t stream, std::vector<std::uint8_t>& streams) {
  if (streams[from] != open)
    return;
  streams[from] = stream;
  for (const auto& [a, b] : pairs)
    if (a == from || b == from)
      spread(pairs, a == from ? b : a, 1 - stream, streams);
}

}  // namespace

std::optional<std::uint32_t> partner_of(const plan& plan, std::uint32_t first) {
  if (!plan.ops[first].overlaps_next)
    return std::nullopt;
  const auto end = plan.first_op[slot(plan.rank_of(first)) + 1];
  for (auto op = first + 1; op < end; ++op)
    if (is_compute(plan.ops[op].kind))
      return op;
  return std::nullopt;
}

std::vector<std::uint8_t> compute_streams(const plan& plan) {
  std::vector<std::uint8_t> streams(plan.placement.instances().size(), 0);
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank) {
    const auto pairs = pairs_of(plan, rank);
    std::vector<std::uint8_t> spreading(streams.size(), open);
    for (const auto& pair : pairs)
      spread(pairs, pair.first, 0, spreading);
    const bool apart = std::ranges::all_of(pairs, [&](const auto& pair) {
      return spreading[pair.first] != spreading[pair.second];
    });
    for (std::size_t i = 0; apart && i < streams.size(); ++i)
      if (spreading[i] == 1)
        streams[i] = 1;
  }
  return streams;
}

}  // namespace troupe
