#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <torch/csrc/autograd/autograd.h>

#include "troupe/base/fail.hpp"
#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/graph.hpp"
#include "troupe/engine/cuda/kernels.hpp"
#include "troupe/engine/cuda/layer_operators.hpp"
#include "troupe/engine/cuda/nccl_communicator.hpp"
#include "troupe/engine/cuda/row_operators.hpp"
#include "troupe/engine/device/load_accelerator.hpp"
#include "troupe_device_headers.hpp"

namespace troupe {
namespace {

/// "13.0" for 13000.
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

int driver_version() {
  int version = 0;
  check(cudaDriverGetVersion(&version), "asking for the driver's version");
  return version;
}

accelerator_description described(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device),
        "asking for a device's properties");
  return {.device = {c10::kCUDA, index_of(device)},
          .name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
}

/// LibTorch runs backwards on a thread of its own for each device, which has no
/// current context until its first call of CUDA's runtime, and would warn if
/// that is one of cuBLAS. This starts it with another call, a kernel's launch.
void start_backward_thread(int device) {
  const at::AutoGradMode with_graph{true};
  const auto x =
    at::ones({}, at::Device{c10::kCUDA, index_of(device)}).requires_grad_();
  torch::autograd::grad({x * x}, {x});
}

class cuda_accelerator final : public accelerator {
 public:
  explicit cuda_accelerator(int device)
    : device_{device},
      description_{described(device)},
      kernels_{make_kernels(device)} {
    const c10::cuda::CUDAGuard guard{index_of(device)};
    check(cudaFree(nullptr), "starting the device");
    start_backward_thread(device);
  }

  const accelerator_description& description() const override {
    return description_;
  }
  std::unique_ptr<device_stream> make_stream(
    stream_priority priority) override {
    return std::make_unique<cuda_stream>(stream_pool::of_device(device_),
                                         priority);
  }
  device_kernels& kernels() override { return *kernels_; }
  std::unique_ptr<device_graph> record_graph(
    device_stream& origin, const std::function<void()>& work) override {
    return troupe::record_graph(static_cast<cuda_stream&>(origin), work);
  }
  communicator_id make_communicator_id() override { return make_nccl_id(); }
  std::unique_ptr<communicator> make_communicator(
    const communicator_options& options) override {
    return std::make_unique<nccl_communicator>(device_, options);
  }

 private:
  const int device_;
  const accelerator_description description_;
  const std::unique_ptr<device_kernels> kernels_;
};

class cuda_library final : public accelerator_library {
 public:
  explicit cuda_library(int devices) : devices_{devices} {}

  std::string versions() const override {
    int runtime = 0;
    check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
    const auto nccl = collectives_version();
    return fmt::format("CUDA {} (driver {}), NCCL {}.{}.{}",
                       cuda_version(runtime), cuda_version(driver_version()),
                       nccl / 10000, nccl % 10000 / 100, nccl % 100);
  }
  int devices() const override { return devices_; }
  int collectives_version() const override {
    int nccl = 0;
    check(ncclGetVersion(&nccl), "asking for the version of NCCL");
    return nccl;
  }
  std::unique_ptr<accelerator> open(int device) override {
    if (device < 0 || device >= devices_)
      fail(error_code::device, "there is no device cuda:{}; the machine has {}",
           device, devices_);
    at::globalContext().lazyInitDevice(c10::kCUDA);
    return std::make_unique<cuda_accelerator>(device);
  }

 private:
  const int devices_;
};

std::string why_no_device(cudaError_t result) {
  const auto driver = driver_version();
  if (driver == 0)
    return "no NVIDIA driver";
  if (result == cudaErrorInsufficientDriver)
    return fmt::format(
      "the NVIDIA driver is for CUDA {}, and troupe was built with CUDA {}: "
      "update the driver",
      cuda_version(driver), cuda_version(CUDART_VERSION));
  if (result == cudaErrorNoDevice || result == cudaSuccess)
    return "no CUDA device";
  return fmt::format("no CUDA device: {}", cudaGetErrorString(result));
}

}  // namespace
}  // namespace troupe

extern "C" __attribute__((visibility("default"))) void troupe_accelerators(
  int interface, troupe::accelerator_lookup& result) {
  using namespace troupe;
  if (interface != accelerator_interface)
    return;
  int devices = 0;
  const auto counted = cudaGetDeviceCount(&devices);
  if (counted != cudaSuccess || devices == 0) {
    cudaGetLastError();
    result.why_not = why_no_device(counted);
    return;
  }
  register_row_operators();
  register_layer_operators();
  static cuda_library library{devices};
  result.library = &library;
}
