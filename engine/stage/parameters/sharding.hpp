#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

/// The values of a stage of which each replica holds a shard instead of all.
enum class shard_mode : std::uint8_t {
  replicate,  // none: data parallelism (DDP)
  gradients,  // reduced gradients and the optimizer's state (ZeRO 1 and 2)
  all,        // and the parameters, gathered for their ops (ZeRO 3, FSDP)
};

/// "replicate", "gradients" or "all".
std::string_view to_text(shard_mode mode);

inline constexpr std::int64_t largest_shard_multiple = 1 << 20;

struct sharding_options {
  shard_mode mode = shard_mode::replicate;
  /// So many replicas share the shards of a stage, and each group of so many
  /// holds all shards (hybrid sharding). A divisor of their number; 0: all
  /// replicas.
  std::int32_t group = 0;
  /// The number of a rank's stages that are whole at once, gathered ahead of
  /// their use. If it is that of all its stages, each is gathered once in a
  /// step, and stays whole between its forwards and backwards.
  std::int32_t most_whole = 3;

  /// A row of parameters is padded to a multiple of shards x so many elements.
  std::int64_t multiple = 128;

  bool shards() const { return mode != shard_mode::replicate; }
  std::int32_t shards_of(std::int32_t replicas) const {
    return !shards() ? 1 : group == 0 ? replicas : group;
  }
};

/// Throws `invalid_argument` for options that make no sense for so many
/// replicas.
void require_legal(const sharding_options& options, std::int32_t replicas);

}  // namespace troupe
