#include "troupe/engine/stage/parameters/sharding.hpp"

#include <iterator>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/shard_layout.hpp"

namespace troupe {

namespace {

constexpr std::string_view names[]{"replicate", "gradients", "all"};
static_assert(std::size(names)
              == static_cast<std::size_t>(shard_mode::all) + 1);

}  // namespace

std::string_view to_text(shard_mode mode) {
  return names[static_cast<std::size_t>(mode)];
}

void require_legal(const sharding_options& options, std::int32_t replicas) {
  if (!options.shards())
    return;
  if (replicas < 2)
    fail(error_code::invalid_argument,
         "sharding ({}) spreads a stage over replicas, and there is one; use "
         "data_parallel (--data-parallel) of 2 or more",
         to_text(options.mode));
  if (options.group < 0 || options.group == 1
      || replicas % options.shards_of(replicas) != 0)
    fail(error_code::invalid_argument,
         "{} replicas can't be divided into sharding groups of {}; use a "
         "divisor of their number, at least 2",
         replicas, options.group);
  if (options.most_whole < 1)
    fail(error_code::invalid_argument,
         "the number of whole stages at once is {}; use 1 or more",
         options.most_whole);
  if (options.multiple < 1 || options.multiple > largest_shard_multiple
      || options.multiple % shard_layout::alignment != 0)
    fail(error_code::invalid_argument,
         "shards can't be padded to a multiple of {} elements; use a multiple "
         "of {}, up to {}",
         options.multiple, shard_layout::alignment, largest_shard_multiple);
}

}  // namespace troupe
