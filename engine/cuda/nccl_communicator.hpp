#pragma once

#include <nccl.h>

#include <atomic>

#include "troupe/engine/device/communicator.hpp"

namespace troupe {

/// An NCCL communicator that never blocks: each call is polled until the host's
/// part is done, up to the time-out.
class nccl_communicator final : public communicator {
 public:
  nccl_communicator(int device, communicator_options options);
  ~nccl_communicator() override { abort(); }
  nccl_communicator(const nccl_communicator&) = delete;
  nccl_communicator& operator=(const nccl_communicator&) = delete;

  void enqueue(std::span<const transfer> together,
               device_stream& stream) override;
  void abort() noexcept override;

 private:
  /// Waits until NCCL has accepted all calls so far; `call` names the last one.
  void settle(const std::string& call);
  ncclResult_t state() const;
  std::string named(const std::string& call) const;
  [[noreturn]] void fail_with(ncclResult_t result, const std::string& call);
  void require_alive() const;

  const int device_;
  const communicator_options options_;
  /// Any thread may abort while another waits for a call to be accepted.
  std::atomic<ncclComm_t> handle_ = nullptr;
};

communicator_id make_nccl_id();

}  // namespace troupe
