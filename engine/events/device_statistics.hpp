#pragma once

#include <vector>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/events/statistics.hpp"

namespace troupe {

/// Statistics that are being copied from a device.
class statistics_batch {
 public:
  statistics_batch() = default;
  statistics_batch(at::Tensor rows, at::Tensor wide_rows, event_handle ready,
                   std::vector<bool> wide);

  std::size_t size() const { return wide_.size(); }
  /// Doesn't wait.
  bool ready() const { return !ready_ || ready_->reached(); }
  /// Statistics of every tensor since the last batch, in the order in which
  /// they were measured. Waits on the host unless the batch is ready.
  std::vector<tensor_statistics> read() const;

 private:
  at::Tensor rows_;
  at::Tensor wide_rows_;
  event_handle ready_;
  std::vector<bool> wide_;
};

/// `measure` for tensors on a device: runs there, in stream order, in one
/// launch for all tensors of an op. The host reads the results once a step and
/// doesn't wait in between. Use it from one thread, the device's launcher.
class device_statistics {
 public:
  device_statistics(device_kernels& kernels, c10::Device device)
    : kernels_{kernels}, device_{device} {}

  /// Launches the statistics of all these tensors on the stream that the
  /// calling thread has entered. Returns the first one's index in the next
  /// batch. Tensors must be on this device and of a type that `measure` takes;
  /// they may change after the work on the stream so far is done. Errors as in
  /// device_kernels.
  std::size_t measure(const tensor_list& tensors, bool with_histogram = false);

  /// Copies results to the host, after the work of `stream`. If other streams
  /// measured too, `stream` must already wait for them.
  statistics_batch take(device_stream& stream);

 private:
  device_kernels& kernels_;
  const c10::Device device_;
  tensor_list rows_;  // one per launch
  tensor_list wide_rows_;
  std::vector<bool> wide_;
};

}  // namespace troupe
