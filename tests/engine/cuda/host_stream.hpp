#pragma once

#include "host_statistics.hpp"
#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/statistics_row.hpp"

namespace troupe {

/// An event, a stream and kernels of the host, which complete everything at
/// once.
class host_event final : public device_event {
 public:
  bool reached() const override { return true; }
  void wait() const override {}
  double seconds_since(const device_event&) const override { return 0; }
};

class host_stream final : public device_stream {
 public:
  c10::Device device() const override { return at::kCPU; }
  std::unique_ptr<stream_scope> enter() override {
    return std::make_unique<stream_scope>();
  }
  event_handle record() override { return std::make_shared<host_event>(); }
  void wait_for(const device_event&) override {}
  void uses(const at::Tensor&) override {}
  void drain() override {}
};

class host_kernels final : public device_kernels {
 public:
  void measure(const tensor_list& tensors, const at::Tensor& rows) override {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      rows[static_cast<std::int64_t>(i)].copy_(
        host_statistics_row(tensors[i], rows.size(1) > statistics_columns));
  }
  void measure_rows(const std::vector<tensor_rows>& tensors,
                    const at::Tensor& rows) override {
    std::int64_t next = 0;
    for (const auto& [tensor, width, chosen] : tensors)
      for (const auto row : chosen)
        rows[next++].copy_(host_statistics_row(
          tensor.as_strided({1, width}, {width, 1},
                            tensor.storage_offset() + row * width),
          false));
  }
  at::Tensor norm_powers(const tensor_list&, norm_type) override { return {}; }
  void fill_mask(const at::Tensor&, const philox_stream&, std::uint32_t,
                 const at::Tensor&) override {}
  void delay(double) override {}
};

}  // namespace troupe
