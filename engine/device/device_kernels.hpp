#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/device/norm_type.hpp"
#include "troupe/engine/device/philox.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// Rows of a tensor: row i is its values [i * width, (i + 1) * width) in
/// memory, which is dense.
struct tensor_rows {
  at::Tensor tensor;
  std::int64_t width = 0;
  std::vector<std::int64_t> rows;
};

/// Work on many tensors of one device at once, in one launch each, without a
/// wait on the host. Like LibTorch's operators, these run on the stream that
/// the calling thread has entered, allocate there, and ignore other streams.
/// Unsuitable tensors are an `error` (invalid_argument), failed launches an
/// `error` (device).
class device_kernels {
 public:
  virtual ~device_kernels() = default;

  /// Statistics as defined by `measure` in engine/events/statistics.hpp, as
  /// rows of numbers (engine/device/statistics_row.hpp). `rows` is a contiguous
  /// fp64 tensor on the device, one row per tensor; wide rows get histograms.
  /// fp32, fp64, fp16, bf16, integers and bool, in any shape and strides.
  virtual void measure(const tensor_list& tensors, const at::Tensor& rows) = 0;

  /// The same of each given row of each tensor, in this order, as if it were a
  /// tensor of one instance; without histograms. fp32, fp64, fp16, bf16.
  virtual void measure_rows(const std::vector<tensor_rows>& tensors,
                            const at::Tensor& rows) = 0;

  /// The sum of |value|^p of each tensor, or for infinity the largest |value|,
  /// computed as fp64: an fp64 tensor [n] on the device, with equal bits from
  /// run to run. fp32, fp64, fp16, bf16. It is finite exactly if all of the
  /// tensor's values are (for fp64: and their powers).
  virtual at::Tensor norm_powers(const tensor_list& tensors,
                                 norm_type type) = 0;

  /// Fills a contiguous uint8 tensor with 1 where the stream's number of the
  /// element, as philox.hpp numbers them, is at least the threshold, else 0.
  /// `key`: int32 [2] on the device, the words of a key that are read there in
  /// place of the stream's, so that a recorded launch can have others each
  /// time; undefined: the stream's.
  virtual void fill_mask(const at::Tensor& mask, const philox_stream& stream,
                         std::uint32_t threshold,
                         const at::Tensor& key = {}) = 0;

  /// Keeps the stream busy for that long, doing nothing: used by tests to
  /// prolong work. At most 10 seconds.
  virtual void delay(double seconds) = 0;
};

}  // namespace troupe
