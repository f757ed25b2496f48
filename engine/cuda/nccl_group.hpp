#pragma once

#include <nccl.h>

#include <vector>

#include "troupe/engine/device/communicator.hpp"

namespace troupe {

class nccl_communicator;

/// Per thread, like NCCL's own groups.
class nccl_group final : public transfer_group {
 public:
  nccl_group();
  ~nccl_group() override;
  nccl_group(const nccl_group&) = delete;
  nccl_group& operator=(const nccl_group&) = delete;

  void end() override;

  /// The calling thread's group, if it has begun one.
  static nccl_group* current();
  /// Records a call of this communicator, which the group awaits at its end.
  void add(nccl_communicator& communicator, std::string call);

 private:
  struct member {
    nccl_communicator* communicator;
    std::string last_call;
  };

  std::vector<member> members_;
};

}  // namespace troupe
