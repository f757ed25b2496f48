#include "disturbed_accelerator.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/data/row_order.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe::testing {

struct disturbed_accelerator::notes {
  std::atomic<int> streams{0};
  std::atomic<std::int64_t> entered{0};
  std::atomic<std::int64_t> disturbed{0};
  std::mutex mutex;
  std::vector<host_wait> waits;

  void waited(int stream, std::int64_t begin) {
    const std::scoped_lock lock(mutex);
    waits.push_back({stream, begin, now_ns()});
  }
};

namespace {

using shared_notes = std::shared_ptr<disturbed_accelerator::notes>;

class disturbed_event final : public device_event {
 public:
  disturbed_event(event_handle inner, int stream, shared_notes to)
    : inner_(std::move(inner)), stream_(stream), to_(std::move(to)) {}

  bool reached() const override { return inner_->reached(); }
  void wait() const override {
    const auto begin = now_ns();
    inner_->wait();
    to_->waited(stream_, begin);
  }
  double seconds_since(const device_event& earlier) const override {
    return inner_->seconds_since(inner(earlier));
  }

  static const device_event& inner(const device_event& of) {
    return *dynamic_cast<const disturbed_event&>(of).inner_;
  }
  static int stream(const device_event& of) {
    return dynamic_cast<const disturbed_event&>(of).stream_;
  }

 private:
  event_handle inner_;
  int stream_;
  shared_notes to_;
};

class disturbed_stream final : public device_stream {
 public:
  disturbed_stream(std::shared_ptr<accelerator> on, stream_priority priority,
                   const device_disturbance& how, shared_notes to)
    : on_(std::move(on)),
      inner_(on_->make_stream(priority)),
      how_(how),
      to_(std::move(to)),
      number_(to_->streams++) {}

  c10::Device device() const override { return inner_->device(); }
  std::unique_ptr<stream_scope> enter() override {
    auto scope = inner_->enter();
    const auto entered = ++to_->entered;
    if (entered % how_.every == 0)
      disturb(static_cast<std::uint64_t>(entered));
    return scope;
  }
  event_handle record() override {
    return std::make_shared<const disturbed_event>(inner_->record(), number_,
                                                   to_);
  }
  void wait_for(const device_event& event) override {
    if (!how_.leaves_out
        || !how_.leaves_out(disturbed_event::stream(event), number_))
      inner_->wait_for(disturbed_event::inner(event));
  }
  void uses(const at::Tensor& tensor) override { inner_->uses(tensor); }
  void drain() override {
    const auto begin = now_ns();
    inner_->drain();
    to_->waited(number_, begin);
  }

 private:
  void disturb(std::uint64_t seed) {
    const at::NoGradGuard no_grad;
    if (how_.delay > 0)
      on_->kernels().delay(how_.delay);
    for (int i = 0; i < how_.blocks; ++i) {
      const auto bits = mix_bits(seed * 64 + static_cast<std::uint64_t>(i));
      at::full({static_cast<std::int64_t>(bits % 4096) + 1},
               std::numeric_limits<float>::quiet_NaN(),
               at::TensorOptions().dtype(at::kFloat).device(device()));
    }
    ++to_->disturbed;
  }

  std::shared_ptr<accelerator> on_;
  std::unique_ptr<device_stream> inner_;
  device_disturbance how_;
  shared_notes to_;
  int number_;
};

}  // namespace

disturbed_accelerator::disturbed_accelerator(std::shared_ptr<accelerator> on,
                                             device_disturbance how)
  : on_(std::move(on)), how_(how), notes_(std::make_shared<notes>()) {}

std::int64_t disturbed_accelerator::disturbed() const {
  return notes_->disturbed;
}

std::vector<host_wait> disturbed_accelerator::take_waits() {
  const std::scoped_lock lock(notes_->mutex);
  return std::exchange(notes_->waits, {});
}

const accelerator_description& disturbed_accelerator::description() const {
  return on_->description();
}

std::unique_ptr<device_stream> disturbed_accelerator::make_stream(
  stream_priority priority) {
  return std::make_unique<disturbed_stream>(on_, priority, how_, notes_);
}

device_kernels& disturbed_accelerator::kernels() {
  return on_->kernels();
}

std::unique_ptr<device_graph> disturbed_accelerator::record_graph(
  device_stream&, const std::function<void()>&) {
  throw error(error_code::internal,
              "what disturbs a device would be recorded with the rest");
}

communicator_id disturbed_accelerator::make_communicator_id() {
  return on_->make_communicator_id();
}

std::unique_ptr<communicator> disturbed_accelerator::make_communicator(
  const communicator_options&) {
  throw error(error_code::internal,
              "a disturbed accelerator has streams of its own, which a "
              "communicator does not know");
}

}  // namespace troupe::testing
