#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// Tensors that one op published, in causal order: forwards from a module's
/// weights and inputs to its outputs, children before parents; backwards from
/// the loss on. Parameters and gradients come once a step, without microbatch.
struct tensors_event {
  static constexpr auto kind = "tensors";

  event_source source;
  bool backward = false;
  /// Size of the microbatch: of the stage's first input along dimension 0.
  std::int64_t samples = 0;
  std::vector<tensor_record> tensors{};
  /// Only for monitors that are exempt from a budget: others don't see this
  /// step's tensors.
  bool for_exempt = false;
  /// Each member of a sharding group publishes its part of sharded parameters
  /// and gradients, flattened, even if it holds none; the hub joins the parts
  /// (shard_joiner.hpp), so that monitors see complete tensors.
  std::int32_t shard = 0, shards = 1;

  static constexpr auto list = &tensors_event::tensors;

  bool wanted_by(const subscription& wants) const {
    return wants.wants_tensors(source.step, source.phase)
           && (wants.exempt || !for_exempt);
  }
  std::string text() const;
  /// Bytes of the records and of tensors that their handles keep alive.
  std::int64_t held_bytes() const;
};

template <class Archive>
void fields(Archive& archive, tensors_event& v) {
  TROUPE_EACH_FIELD(v, source, backward, samples, tensors)
  archive.within_job("for_exempt", v.for_exempt);
  archive.within_job("shard", v.shard);
  archive.within_job("shards", v.shards);
  if constexpr (Archive::reads)
    archive.require(v.shard >= 0 && v.shard < v.shards, "shard");
}

}  // namespace troupe
