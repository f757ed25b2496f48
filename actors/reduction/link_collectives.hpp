#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "troupe/actors/reduction/collectives.hpp"

namespace troupe {

/// Over the links between processes, by a reduce-scatter and an all-gather: the
/// tensors of a member, in a row, are cut into as many pieces as there are
/// members; the process of member p reduces piece p of all members and sends
/// the result to the others. The bits are those of one process. Tensors are of
/// one dtype and on the CPU.
class link_collectives final : public collectives {
 public:
  using sender = std::function<void(std::int32_t process, reduce_part part)>;

  /// `owners`: the process of each member; `process`: this one.
  link_collectives(std::vector<std::int32_t> owners, std::int32_t replicas,
                   std::int32_t process, sender send);

  bool spans_processes() const override { return true; }
  bool all_reduce(std::int64_t serial, std::int32_t stage,
                  std::vector<tensor_list>& members) override;
  bool on(reduce_part part) override;

 private:
  std::int32_t owner(std::int32_t member) const {
    return owners_.at(static_cast<std::size_t>(member));
  }
  void add(const reduce_part& part);
  bool finish();

  std::vector<std::int32_t> owners_;
  std::int32_t replicas_;
  std::int32_t process_;
  sender send_;
  std::vector<std::int32_t> others_;  // processes with members, but this one
  std::vector<tensor_list> waiting_;  // the tensors of this process's members
  /// By piece: of each member, for those that are reduced here.
  std::map<std::int32_t, tensor_list> parts_;
  std::map<std::int32_t, at::Tensor> means_;  // by piece
};

}  // namespace troupe
