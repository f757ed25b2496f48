#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/device/communicator.hpp"
#include "troupe/engine/device/device_graph.hpp"
#include "troupe/engine/device/device_kernels.hpp"
#include "troupe/engine/device/stream.hpp"

namespace troupe {

struct accelerator_description {
  c10::Device device{c10::kCUDA, 0};
  std::string name{};  // "NVIDIA H100 80GB HBM3"
  int major = 0;       // compute capability
  int minor = 0;
  std::int64_t total_bytes = 0;
};

/// "cuda:0, NVIDIA H100 80GB HBM3, 79.1 GiB, compute capability 9.0".
std::string describe(const accelerator_description& description);

/// How a device chooses between streams that have pending work.
enum class stream_priority { normal, high };

/// One device of this process. It must outlive everything it made; any thread
/// may call it. Errors are `error`s (device).
class accelerator {
 public:
  virtual ~accelerator() = default;
  virtual const accelerator_description& description() const = 0;
  /// A stream of the caller's own, for LibTorch's operators too.
  virtual std::unique_ptr<device_stream> make_stream(
    stream_priority priority = stream_priority::normal) = 0;
  virtual device_kernels& kernels() = 0;
  /// Records the work that `work` gives to `origin`, and to each stream from
  /// the point where that waits for an event of a recorded stream; at the end
  /// `origin` must have waited for all of them. Nothing is run: no value exists
  /// yet, the host can't wait for one, and earlier events must not be waited
  /// for. `work` may let other threads give work, one at a time. Tensors made
  /// by it belong to the graph: remaining handles show each launch's results;
  /// earlier tensors that it uses must be kept. Passes on what `work` throws,
  /// and throws `error` (device) if something can't be recorded: then the
  /// previous state is restored, and the streams are usable.
  virtual std::unique_ptr<device_graph> record_graph(
    device_stream& origin, const std::function<void()>& work) = 0;

  /// The id for all ranks of one communicator; one of them makes it.
  virtual communicator_id make_communicator_id() = 0;
  /// Waits until all ranks have called it, up to the time-out. Throws `error`
  /// (transport), too.
  virtual std::unique_ptr<communicator> make_communicator(
    const communicator_options& options) = 0;
};

/// A kind of devices, from a library loaded on demand
/// (engine/device/load_accelerator.hpp). Lives as long as the process.
class accelerator_library {
 public:
  virtual ~accelerator_library() = default;

  /// "CUDA 13.0 (driver 13.0), NCCL 2.28.9".
  virtual std::string versions() const = 0;
  /// At least 1.
  virtual int devices() const = 0;
  /// The version of the library for collectives: 23007 for NCCL 2.30.7.
  virtual int collectives_version() const = 0;
  /// Opens the device of this number, from 0.
  virtual std::unique_ptr<accelerator> open(int device) = 0;
};

/// Copies `source`, of any strides, to the stream's device through page-locked
/// memory, so that the host does not wait. The tensor belongs to the stream:
/// others wait for an event first. `source` may change once this returns,
/// unless it is in locked memory itself.
at::Tensor to_device(const at::Tensor& source, device_stream& stream);

/// Copies likewise to a tensor of the stream's device, of the same shape and
/// dtype.
void copy_to_device(const at::Tensor& source, const at::Tensor& target,
                    device_stream& stream);

/// A tensor on the host, and the event after which it may be read.
struct host_copy {
  at::Tensor tensor;
  event_handle ready;
};

/// Copies to locked host memory, after the stream's earlier work.
host_copy to_host(const at::Tensor& source, device_stream& stream);

/// `device_kernels::delay` on one stream.
void delay(accelerator& on, device_stream& stream, double seconds);

}  // namespace troupe
