#pragma once

#include "troupe/base/error.hpp"
#include "troupe/engine/device/accelerator.hpp"

namespace troupe::testing {

/// Reached after the first wait, or when a test sets `done`.
struct slow_event final : device_event {
  bool reached() const override { return done; }
  void wait() const override {
    ++waits;
    done = true;
  }
  double seconds_since(const device_event&) const override { return 0.5; }

  mutable bool done = false;
  mutable int waits = 0;
};

struct silent_stream final : device_stream {
  explicit silent_stream(stream_priority own_priority)
    : priority(own_priority) {}
  c10::Device device() const override { return c10::kCPU; }
  std::unique_ptr<stream_scope> enter() override { return nullptr; }
  event_handle record() override {
    recorded = std::make_shared<slow_event>();
    return recorded;
  }
  void wait_for(const device_event& event) override {
    waited_for.push_back(&event);
  }
  void uses(const at::Tensor&) override {}
  void drain() override {}
  stream_priority priority;
  std::shared_ptr<slow_event> recorded;  // the last one
  std::vector<const device_event*> waited_for;
};

struct silent_accelerator final : accelerator {
  const accelerator_description& description() const override { return about; }
  std::unique_ptr<device_stream> make_stream(
    stream_priority priority) override {
    ++streams;
    return std::make_unique<silent_stream>(priority);
  }
  device_kernels& kernels() override {
    if (!own_kernels)
      throw error(error_code::internal, "no kernels");
    return *own_kernels;
  }
  std::unique_ptr<device_graph> record_graph(
    device_stream&, const std::function<void()>&) override {
    return nullptr;
  }
  communicator_id make_communicator_id() override { return {}; }
  std::unique_ptr<communicator> make_communicator(
    const communicator_options&) override {
    return nullptr;
  }

  accelerator_description about{c10::kCPU, "silent"};
  int streams = 0;
  device_kernels* own_kernels = nullptr;
};

}  // namespace troupe::testing
