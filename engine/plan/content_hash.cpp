#include "troupe/engine/plan/content_hash.hpp"

namespace troupe {

namespace {

/// FNV-1a, one number at a time.
class hasher {
 public:
  template <class... Numbers>
  void add(Numbers... numbers) {
    (add_one(static_cast<std::uint64_t>(numbers)), ...);
  }
  std::uint64_t value() const { return value_; }

 private:
  void add_one(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) {
      value_ ^= (number >> (8 * byte)) & 255U;
      value_ *= 0x100000001b3U;
    }
  }
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

std::uint64_t content_hash(const plan& of) {
  hasher all;
  all.add(of.microbatches, of.slices, of.training, of.global_norm, of.ranks(),
          of.stages());
  for (std::int32_t s = 0; s < of.stages(); ++s)
    all.add(of.placement.rank_of(s));
  for (const auto first : of.first_op)
    all.add(first);
  for (const auto& op : of.ops)
    all.add(op.kind, op.stream, op.copy, op.slice, op.stage, op.microbatch,
            op.message);
  for (const auto& message : of.messages)
    all.add(message.channel, message.sequence, message.producer,
            message.consumer);
  for (const auto& channel : of.channels)
    all.add(channel.from_rank, channel.to_rank, channel.backward,
            channel.messages, channel.credits);
  return all.value();
}

}  // namespace troupe
