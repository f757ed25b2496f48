#include "troupe/engine/device/accelerator.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "troupe/base/error.hpp"

namespace troupe {
namespace {

/// CPU streams, used by tests, need no locked memory.
at::Tensor locked_like(const at::Tensor& tensor, const device_stream& stream) {
  return at::empty(
    tensor.sizes(),
    tensor.options().device(at::kCPU).requires_grad(false).pinned_memory(
      !stream.device().is_cpu()));
}

at::Tensor in_locked_memory(const at::Tensor& tensor,
                            const device_stream& stream) {
  if (tensor.is_pinned() && tensor.is_contiguous())
    return tensor;
  return locked_like(tensor, stream).copy_(tensor);
}

}  // namespace

std::string describe(const accelerator_description& description) {
  constexpr double gib = 1 << 30;
  return fmt::format("{}, {}, {:.1f} GiB, compute capability {}.{}",
                     description.device.str(), description.name,
                     static_cast<double>(description.total_bytes) / gib,
                     description.major, description.minor);
}

at::Tensor to_device(const at::Tensor& source, device_stream& stream) {
  const at::NoGradGuard no_grad;
  const auto scope = stream.enter();
  const auto locked = in_locked_memory(source, stream);
  return at::empty(
           locked.sizes(),
           locked.options().device(stream.device()).pinned_memory(false))
    .copy_(locked, /*non_blocking=*/true);
}

void copy_to_device(const at::Tensor& source, const at::Tensor& target,
                    device_stream& stream) {
  const at::NoGradGuard no_grad;
  const auto scope = stream.enter();
  target.copy_(in_locked_memory(source, stream), /*non_blocking=*/true);
}

host_copy to_host(const at::Tensor& source, device_stream& stream) {
  const at::NoGradGuard no_grad;
  const auto scope = stream.enter();
  stream.uses(source);
  auto copy = locked_like(source, stream).copy_(source, /*non_blocking=*/true);
  return {std::move(copy), stream.record()};
}

void delay(accelerator& on, device_stream& stream, double seconds) {
  const auto scope = stream.enter();
  on.kernels().delay(seconds);
}

}  // namespace troupe
