#pragma once

#include <vector>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/events/row_sample.hpp"
#include "troupe/engine/events/statistics.hpp"

namespace troupe {

/// `measure` for tensors on a device: runs there, in stream order, in one
/// launch for many tensors. The host reads the results once a step and
/// doesn't wait in between. Use it from one thread, the device's launcher,
/// within the stream that the tensors are made on.
class device_statistics {
 public:
  device_statistics(device_kernels& kernels, c10::Device device)
    : kernels_{kernels}, device_{device} {}

  /// Adds a tensor to the next launch, and returns its index in the next batch.
  /// It must be on this device and of a type that `measure` takes, and must not
  /// change before the launch. Tensors that wait keep their memory: beyond 64
  /// MiB they are launched. Errors as in device_kernels.
  std::size_t add(const at::Tensor& tensor, bool with_histogram = false);

  /// The same for drawn rows of a tensor; the index is that of the next batch
  /// of samples.
  std::size_t add_sample(const at::Tensor& tensor, const row_plan& plan,
                         std::vector<std::int64_t> rows);

  /// Launches the statistics of the tensors that wait. They may change after
  /// the work on the stream so far is done.
  void launch();

  /// The statistics of every tensor launched since the last call, in the order
  /// in which they were added. Waits until they are copied to the host, after
  /// the work of `stream`; if other streams measured too, `stream` must already
  /// wait for them.
  std::vector<tensor_statistics> take(device_stream& stream);
  /// The same for samples.
  std::vector<row_estimates> take_samples(device_stream& stream);

 private:
  void keep_few_waiting(const at::Tensor& added);
  void launch_tensors();
  void launch_samples();

  device_kernels& kernels_;
  const c10::Device device_;
  tensor_list waiting_;
  std::size_t waiting_bytes_ = 0;
  bool waits_for_histogram_ = false;
  tensor_list rows_;  // one per launch
  tensor_list wide_rows_;
  std::vector<bool> wide_;  // a launched tensor's rows
  std::vector<tensor_rows> waiting_samples_;
  std::vector<row_plan> plans_;  // of all samples since they were taken
  tensor_list sample_rows_;
};

}  // namespace troupe
