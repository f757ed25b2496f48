#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/actors/messages.hpp"

namespace troupe {

/// Averages one stage's gradients over replicas of several processes, by a
/// reduce-scatter and an all-gather: the gradients, in a row, are cut into as
/// many pieces as there are replicas; the process of replica p adds piece p of
/// all replicas in ascending data rank, then divides, and sends the average to
/// the others. The bits are those of `reducer_core`. One thread.
class shared_reducer_core {
 public:
  /// `owners`: the process of each replica of the stage; `here`: this one.
  shared_reducer_core(std::vector<std::int32_t> owners, std::int32_t here);

  /// Messages to send, and whether all local replicas hold the average now.
  struct answer {
    std::vector<std::pair<std::int32_t, reduce_part>> send;
    bool done = false;
  };
  answer on(reduce_gradients request);
  /// Throws `mismatch` for a part that belongs elsewhere or comes twice.
  answer on(reduce_part part);

 private:
  std::int32_t owner(std::int32_t data_rank) const {
    return owners_.at(static_cast<std::size_t>(data_rank));
  }
  void add(const reduce_part& part, answer& to);
  void finish(answer& to);

  std::vector<std::int32_t> owners_;
  std::int32_t here_;
  std::vector<std::int32_t> others_;  // processes with replicas, but this one
  std::int64_t replicas_here_ = 0;
  std::map<std::int32_t, tensor_list> waiting_;  // replicas here, parameters
  /// By piece: of each replica, for those that are added here.
  std::map<std::int32_t, std::vector<at::Tensor>> parts_;
  std::map<std::int32_t, at::Tensor> averages_;  // by piece
};

}  // namespace troupe
