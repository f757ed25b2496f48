#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/reduction/collectives.hpp"

namespace troupe {

/// Reduces one stage's gradients over the members of its group: its copies in
/// all replicas. A member without a gradient of a parameter counts as zeros;
/// where no member has one, there is no result. One thread at a time.
class reducer_core {
 public:
  /// `members`: how many live in this process.
  reducer_core(std::unique_ptr<collectives> calls, std::size_t members);

  /// The answers to all members here, once they are known; none before. The
  /// gradients are the request's own tensors. Throws `internal` for a second
  /// request of a member, and what the collectives throw.
  std::vector<gradients_reduced> on(reduce_gradients request);
  std::vector<gradients_reduced> on(reduce_part part);

 private:
  /// Of each parameter: whether a member has a gradient of it.
  using presence = std::vector<bool>;

  bool reduce();
  void complete(reduce_gradients& member, device_stream* stream);
  at::Tensor presence_row(const presence& has, const at::Tensor& like,
                          device_stream* stream);
  std::vector<gradients_reduced> take_answers();
  void remove_absent(std::size_t member, tensor_list& gradients) const;

  std::unique_ptr<collectives> calls_;
  std::size_t members_;
  std::vector<reduce_gradients> waiting_;  // by data rank, then copy
  std::vector<tensor_list> gradients_;     // of the members here
  std::vector<presence> has_;
  event_handle ready_;
  presence row_of_;  // of these, a row on the device
  at::Tensor row_;
};

}  // namespace troupe
