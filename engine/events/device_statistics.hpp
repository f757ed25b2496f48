#pragma once

#include <vector>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/events/statistics.hpp"

namespace troupe {

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

  /// The statistics of every tensor since the last call, in the order in which
  /// they were measured. Waits until they are copied to the host, after the
  /// work of `stream`; if other streams measured too, `stream` must already
  /// wait for them.
  std::vector<tensor_statistics> take(device_stream& stream);

 private:
  device_kernels& kernels_;
  const c10::Device device_;
  tensor_list rows_;  // one per launch
  tensor_list wide_rows_;
  std::vector<bool> wide_;
};

}  // namespace troupe
