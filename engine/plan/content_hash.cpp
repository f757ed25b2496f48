#include "troupe/engine/plan/content_hash.hpp"

#include "troupe/base/fnv_hash.hpp"

namespace troupe {

std::uint64_t content_hash(const plan& plan) {
  fnv_hash hash;
  const auto add = [&](auto... numbers) {
    (hash.add(static_cast<std::uint64_t>(numbers)), ...);
  };
  add(plan.microbatches, plan.slices, plan.training, plan.global_norm,
      plan.ranks(), plan.stages(), plan.update.every, plan.update.lag);
  for (std::int32_t s = 0; s < plan.stages(); ++s)
    add(plan.placement.rank_of(s));
  for (const auto [giver, reader] : plan.graph.edges())
    add(giver, reader);
  for (const auto first : plan.first_op)
    add(first);
  for (const auto& op : plan.ops)
    add(op.kind, op.stream, op.copy, op.slice, op.stage, op.microbatch, op.peer,
        op.message, op.overlaps_next, op.first_dependency, op.dependency_count);
  for (const auto dependency : plan.dependencies)
    add(dependency);
  for (const auto& message : plan.messages)
    add(message.channel, message.sequence, message.producer, message.consumer);
  for (const auto& channel : plan.channels)
    add(channel.from_rank, channel.to_rank, channel.backward, channel.messages,
        channel.credits);
  return hash.value();
}

}  // namespace troupe
