#pragma once

#include <nccl.h>

#include <vector>

#include "troupe/engine/device/communicator.hpp"

namespace troupe {

class nccl_communicator;

/// NCCL keeps groups by thread, and so does this.
class nccl_group final : public transfer_group {
 public:
  nccl_group();
  ~nccl_group() override;
  nccl_group(const nccl_group&) = delete;
  nccl_group& operator=(const nccl_group&) = delete;

  void end() override;

  /// The calling thread's, if it has begun one.
  static nccl_group* current();
  /// The group has a call of this communicator, and waits for it at its end.
  void add(nccl_communicator& communicator, std::string call);

 private:
  struct member {
    nccl_communicator* communicator;
    std::string last_call;
  };

  std::vector<member> members_;
};

}  // namespace troupe
