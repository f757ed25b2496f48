#pragma once

#include "troupe/engine/cuda/kernels.hpp"
#include "troupe/engine/device/accelerator.hpp"

namespace troupe {

class cuda_accelerator final : public accelerator {
 public:
  explicit cuda_accelerator(int device);

  const accelerator_description& description() const override {
    return description_;
  }
  device_memory memory() const override;
  std::unique_ptr<device_stream> make_stream(stream_priority priority) override;
  device_kernels& kernels() override { return kernels_; }
  std::unique_ptr<device_graph> record_graph(
    device_stream& origin, const std::function<void()>& work) override;
  communicator_id make_communicator_id() override;
  std::unique_ptr<communicator> make_communicator(
    const communicator_options& options) override;

 private:
  const int device_;
  const accelerator_description description_;
  cuda_kernels kernels_;
};

}  // namespace troupe
