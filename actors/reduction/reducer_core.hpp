#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/reduction/collectives.hpp"

namespace troupe {

/// Averages one stage's gradients over its replicas. A replica without a
/// gradient of a parameter counts as zeros; where no replica has one, none has
/// a mean. One thread at a time.
class reducer_core {
 public:
  /// `local_ranks`: the data ranks of this process's replicas, ascending.
  reducer_core(std::unique_ptr<collectives> calls,
               std::vector<std::int32_t> local_ranks);

  /// The answers to all replicas here, once they are known; none before. The
  /// gradients are the request's own tensors. Throws `internal` for a second
  /// request of a replica, and what the collectives throw.
  std::vector<gradients_reduced> on(reduce_gradients request);
  std::vector<gradients_reduced> on(reduce_part part);

 private:
  /// Of each parameter: whether a replica has a gradient of it.
  using presence = std::vector<bool>;

  bool reduce();
  void complete(reduce_gradients& replica, device_stream* stream);
  at::Tensor presence_row(const presence& has, const at::Tensor& like,
                          device_stream* stream);
  std::vector<gradients_reduced> take_answers();
  void remove_absent(std::size_t replica, tensor_list& gradients) const;

  std::unique_ptr<collectives> calls_;
  std::vector<std::int32_t> local_ranks_;
  std::vector<reduce_gradients> waiting_;  // by data rank
  std::vector<tensor_list> gradients_;     // of the replicas here
  std::vector<presence> has_;
  event_handle ready_;
  presence row_of_;  // of these, a row on the device
  at::Tensor row_;
};

}  // namespace troupe
