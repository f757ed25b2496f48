#pragma once

#include <vector>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/events/statistics.hpp"

namespace troupe {

/// Statistics that are on their way from a device.
class statistics_batch {
 public:
  statistics_batch() = default;
  statistics_batch(at::Tensor rows, at::Tensor wide_rows, event_handle ready,
                   std::vector<bool> wide);

  std::size_t size() const { return wide_.size(); }
  /// Without waiting.
  bool ready() const { return !ready_ || ready_->reached(); }
  /// Of every tensor since the last batch, in the order in which they were
  /// measured. Waits on the host unless the batch is ready.
  std::vector<tensor_statistics> read() const;

 private:
  at::Tensor rows_;
  at::Tensor wide_rows_;
  event_handle ready_;
  std::vector<bool> wide_;
};

/// `measure` for tensors of a device: where they are, when they are there, in
/// one launch for all of an op, and read by the host once a step, which waits
/// for nothing in between. One thread, the device's launcher, uses it.
class device_statistics {
 public:
  device_statistics(device_kernels& kernels, c10::Device device)
    : kernels_{kernels}, device_{device} {}

  /// Launches the statistics of all these on the stream that the calling
  /// thread has entered. Returns the first one's place in the next batch.
  /// Tensors that `measure` takes, of this device; they may change once what
  /// is on the stream so far is done. Errors as of device_kernels.
  std::size_t measure(const tensor_list& tensors, bool with_histogram = false);

  /// Copies what was measured to the host, behind the work of `stream`. If
  /// others measured too, `stream` has been told to wait for them.
  statistics_batch take(device_stream& stream);

 private:
  device_kernels& kernels_;
  const c10::Device device_;
  tensor_list rows_;  // those of a launch
  tensor_list wide_rows_;
  std::vector<bool> wide_;
};

}  // namespace troupe
