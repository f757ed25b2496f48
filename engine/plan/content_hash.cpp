#include "troupe/engine/plan/content_hash.hpp"

#include "troupe/base/fnv_hash.hpp"

namespace troupe {

std::uint64_t content_hash(const plan& of) {
  fnv_hash hash;
  const auto add = [&](auto... numbers) {
    (hash.add(static_cast<std::uint64_t>(numbers)), ...);
  };
  add(of.microbatches, of.slices, of.training, of.global_norm, of.ranks(),
      of.stages());
  for (std::int32_t s = 0; s < of.stages(); ++s)
    add(of.placement.rank_of(s));
  for (const auto [from, to] : of.graph.edges())
    add(from, to);
  for (const auto first : of.first_op)
    add(first);
  for (const auto& op : of.ops)
    add(op.kind, op.stream, op.copy, op.slice, op.stage, op.microbatch, op.peer,
        op.message, op.overlaps_next, op.first_dependency, op.dependency_count);
  for (const auto dependency : of.dependencies)
    add(dependency);
  for (const auto& message : of.messages)
    add(message.channel, message.sequence, message.producer, message.consumer);
  for (const auto& channel : of.channels)
    add(channel.from_rank, channel.to_rank, channel.backward, channel.messages,
        channel.credits);
  return hash.value();
}

}  // namespace troupe
