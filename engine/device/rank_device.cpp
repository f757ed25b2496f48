#include "troupe/engine/device/rank_device.hpp"

#include <cmath>
#include <deque>
#include <utility>

#include "troupe/engine/device/clock.hpp"

namespace troupe {

namespace {

std::unique_ptr<device_stream> own_stream(accelerator& on, bool wanted) {
  return wanted ? on.make_stream(stream_priority::high) : nullptr;
}

}  // namespace

struct rank_device::shared {
  shared(std::shared_ptr<accelerator> device, const overlap_options& overlap,
         std::int32_t most_ahead)
    : on(std::move(device)),
      first(on->make_stream()),
      data(own_stream(*on, overlap.data)),
      sends(own_stream(*on, overlap.transfers)),
      receives(own_stream(*on, overlap.transfers)),
      copies(overlap.copies),
      ahead(static_cast<std::size_t>(most_ahead)) {}

  std::shared_ptr<accelerator> on;
  std::unique_ptr<device_stream> first, data, sends, receives;
  std::unique_ptr<device_stream> second;             // null: no ops run at once
  bool copies;                                       // run beside compute ops
  std::unique_ptr<device_stream> offloads, reloads;  // null: none so far
  std::size_t ahead;
  std::deque<event_handle> running;
  std::int64_t serial = 0;
  event_handle origin;
  std::int64_t origin_ns = 0;
};

rank_device::rank_device(std::shared_ptr<accelerator> on,
                         const overlap_options& overlap, std::int32_t ahead)
  : rank_(std::make_shared<shared>(std::move(on), overlap, ahead)),
    compute_(rank_->first.get()) {}

rank_device::rank_device(std::shared_ptr<shared> rank, device_stream& compute)
  : rank_(std::move(rank)), compute_(&compute) {}

std::shared_ptr<rank_device> rank_device::beside() const {
  if (!rank_->second)
    rank_->second = rank_->on->make_stream();
  return std::shared_ptr<rank_device>(new rank_device(rank_, *rank_->second));
}

const std::shared_ptr<accelerator>& rank_device::hardware() const {
  return rank_->on;
}

device_stream& rank_device::data() {
  return rank_->data ? *rank_->data : *compute_;
}

device_stream& rank_device::sends() {
  return rank_->sends ? *rank_->sends : *compute_;
}

device_stream& rank_device::receives() {
  return rank_->receives ? *rank_->receives : *compute_;
}

device_stream& rank_device::offloads() {
  if (rank_->copies && !rank_->offloads)
    rank_->offloads = own_stream(*rank_->on, true);
  return rank_->copies ? *rank_->offloads : *compute_;
}

device_stream& rank_device::reloads() {
  if (rank_->copies && !rank_->reloads)
    rank_->reloads = own_stream(*rank_->on, true);
  return rank_->copies ? *rank_->reloads : *compute_;
}

bool rank_device::overlaps_transfers() const {
  return rank_->sends != nullptr;
}

void rank_device::join() {
  if (!rank_->second)
    return;
  const auto first = rank_->first->record();
  const auto second = rank_->second->record();
  rank_->first->wait_for(*second);
  rank_->second->wait_for(*first);
}

void rank_device::wait_for(const device_event& event) {
  rank_->first->wait_for(event);
  if (rank_->second)
    rank_->second->wait_for(event);
}

void rank_device::launched(event_handle end) {
  auto& running = rank_->running;
  running.push_back(std::move(end));
  while (!running.empty() && running.front()->reached())
    running.pop_front();
  while (running.size() > rank_->ahead) {
    running.front()->wait();
    running.pop_front();
  }
}

void rank_device::begin_step(std::int64_t serial) {
  if (std::exchange(rank_->serial, serial) == serial)
    return;
  join();
  rank_->origin = rank_->first->record();
  rank_->origin->wait();
  rank_->origin_ns = now_ns();
}

std::int64_t rank_device::host_ns(const device_event& reached) const {
  return rank_->origin_ns
         + std::llround(reached.seconds_since(*rank_->origin) * 1e9);
}

void take_over(device_stream& stream, const tensor_list& tensors,
               const event_handle& ready) {
  if (ready)
    stream.wait_for(*ready);
  for (const auto& tensor : tensors)
    stream.uses(tensor);
}

}  // namespace troupe
