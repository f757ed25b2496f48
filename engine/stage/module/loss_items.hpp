#pragma once

#include <functional>
#include <string>

#include "troupe/engine/stage/loss.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/numerics.hpp"

namespace troupe {

/// Counts the items of all losses of a model's microbatch, by the names under
/// which they are reported. Waits for nothing: the data is in host memory.
using item_counter = std::function<item_counts(const microbatch_data&)>;

/// Returns null if no loss counts items beforehand.
item_counter item_counter_of(const model& layers, const numerics& how);

/// Adds counts to `sum`. Throws `op_failed`, naming the loss, for counts that
/// are negative or not finite.
void add(item_counts& sum, const item_counts& counts);

/// Throws `op_failed` for a loss that weighs microbatches equally, and is the
/// mean of different numbers of items.
[[noreturn]] void refuse_uneven_counts(const std::string& loss, double one,
                                       double other);

/// The items of an update.
struct update_items {
  item_counts counts;  // over all of its microbatches and replicas
  std::int32_t replicas = 1;
  std::int32_t slices = 1;
};

/// Adds the divisors of its losses to a microbatch; `own`: its counts.
microbatch_data with_items(microbatch_data data, const item_counter& counter,
                           const item_counts& own, const update_items& update);

/// The values from which the first gradients of a step's losses follow.
struct loss_seeds {
  double scale = 1;  // the loss scale
  /// The seed of a loss that weighs microbatches and slices equally: scale /
  /// (microbatches of an update x slices).
  double equal = 1;
  /// All losses weigh these equally (loss_weighting::microbatches).
  bool all_equal = false;
};

/// The gradient of a loss with which the backward of a slice of `data` begins,
/// on the loss's device. It is scale / divisor where items are counted, which
/// equals `equal`, bit for bit, where all microbatches and slices count as
/// many; otherwise `equal`. Undefined if the update has no items, so that the
/// loss has no gradient.
at::Tensor seed_of(const loss_term& term, const microbatch_data& data,
                   std::int32_t slice, const loss_seeds& seeds);

}  // namespace troupe
