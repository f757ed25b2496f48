#include "troupe/engine/device/rank_device.hpp"

#include <cmath>
#include <utility>

#include "troupe/engine/device/clock.hpp"

namespace troupe {

namespace {

std::unique_ptr<device_stream> own_stream(accelerator& on, bool wanted) {
  return wanted ? on.make_stream(stream_priority::high) : nullptr;
}

}  // namespace

rank_device::rank_device(std::shared_ptr<accelerator> on,
                         const overlap_options& overlap, std::int32_t ahead)
  : on_(std::move(on)),
    compute_(on_->make_stream()),
    data_(own_stream(*on_, overlap.data)),
    sends_(own_stream(*on_, overlap.transfers)),
    receives_(own_stream(*on_, overlap.transfers)),
    ahead_(static_cast<std::size_t>(ahead)) {}

void rank_device::launched(event_handle end) {
  running_.push_back(std::move(end));
  while (!running_.empty() && running_.front()->reached())
    running_.pop_front();
  while (running_.size() > ahead_) {
    running_.front()->wait();
    running_.pop_front();
  }
}

void rank_device::begin_step(std::int64_t serial) {
  if (std::exchange(serial_, serial) == serial)
    return;
  origin_ = compute_->record();
  origin_->wait();
  origin_ns_ = now_ns();
}

std::int64_t rank_device::host_ns(const device_event& reached) const {
  return origin_ns_ + std::llround(reached.seconds_since(*origin_) * 1e9);
}

void take_over(device_stream& stream, const tensor_list& tensors,
               const event_handle& ready) {
  if (ready)
    stream.wait_for(*ready);
  for (const auto& tensor : tensors)
    stream.uses(tensor);
}

}  // namespace troupe
