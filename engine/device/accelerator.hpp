#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/engine/device/communicator.hpp"
#include "troupe/engine/device/device_kernels.hpp"
#include "troupe/engine/device/stream.hpp"

namespace troupe {

struct accelerator_description {
  c10::Device device{c10::kCUDA, 0};
  std::string name{};  // "NVIDIA H100 80GB HBM3"
  int major = 0;       // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::int64_t total_bytes = 0;
};

/// "cuda:0, NVIDIA H100 80GB HBM3, 79.1 GiB, compute capability 9.0".
std::string describe(const accelerator_description& of);

/// Bytes of a device's memory: held by tensors now and at most so far, held
/// by LibTorch's allocator, free for anybody, and all that there is.
struct device_memory {
  std::int64_t allocated = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t free = 0;
  std::int64_t total = 0;
};

/// How a device chooses between streams that have work.
enum class stream_priority { normal, high };

/// One device of this process. Outlives all that it made; any
/// thread may call it. Errors are `error`s (device).
class accelerator {
 public:
  virtual ~accelerator() = default;

  virtual const accelerator_description& description() const = 0;
  virtual device_memory memory() const = 0;
  /// A stream that no other shares, and that LibTorch's operators run on.
  virtual std::unique_ptr<device_stream> make_stream(
    stream_priority priority = stream_priority::normal) = 0;
  virtual device_kernels& kernels() = 0;
  /// For all ranks of one communicator, made by one of them.
  virtual communicator_id make_communicator_id() = 0;
  /// Waits until all ranks have called it, up to the time-out.
  virtual std::unique_ptr<communicator> make_communicator(
    const communicator_options& options) = 0;
};

/// A kind of devices, from a library that is loaded where it is wanted
/// (engine/device/load_accelerator.hpp). Lives as long as the process.
class accelerator_library {
 public:
  virtual ~accelerator_library() = default;

  /// "CUDA 13.0 (driver 13.0), NCCL 2.28.9".
  virtual std::string versions() const = 0;
  /// At least 1.
  virtual int devices() const = 0;
  /// The device of that number, from 0.
  virtual std::unique_ptr<accelerator> open(int device) = 0;
  virtual std::unique_ptr<transfer_group> begin_group() = 0;
};

/// A copy of `from`, of any strides, on the stream's device, by way of memory
/// that is locked to its place, so that the host does not wait for it. The
/// tensor is the stream's: others wait for an event first. `from` may change
/// once this returns, unless it is in locked memory itself.
at::Tensor to_device(const at::Tensor& from, device_stream& stream);

/// A tensor of the host, and the point from which it may be read.
struct host_copy {
  at::Tensor tensor;
  event_handle ready;
};

/// Copies to locked memory of the host behind what the stream was given.
host_copy to_host(const at::Tensor& from, device_stream& stream);

/// `device_kernels::delay` on one stream.
void delay(accelerator& on, device_stream& stream, double seconds);

}  // namespace troupe
