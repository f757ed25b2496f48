#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "troupe/engine/device/accelerator.hpp"

namespace troupe {

/// Which work runs beside the compute ops of a rank. What does not, delays
/// them; results are the same.
struct overlap_options {
  bool data = true;       // batches on their way to a device
  bool reduce = true;     // gradients of replicas
  bool transfers = true;  // tensors between devices

  friend bool operator==(const overlap_options&,
                         const overlap_options&) = default;
};

/// What a rank computes on where that is no CPU: an accelerator, which other
/// ranks of the process may share, and streams of the rank's own. Whoever holds
/// the rank's lane token gives them work: one thread at a time, in the order
/// of the plan.
class rank_device {
 public:
  /// The host runs at most `ahead` compute ops ahead of the device.
  rank_device(std::shared_ptr<accelerator> on, const overlap_options& overlap,
              std::int32_t ahead = 64);

  const std::shared_ptr<accelerator>& on() const { return on_; }
  c10::Device device() const { return compute_->device(); }
  device_stream& compute() { return *compute_; }
  /// The compute stream, unless that kind of work overlaps.
  device_stream& data() { return data_ ? *data_ : *compute_; }
  device_stream& sends() { return sends_ ? *sends_ : *compute_; }
  device_stream& receives() { return receives_ ? *receives_ : *compute_; }
  bool overlaps_transfers() const { return sends_ != nullptr; }

  /// A compute op was given to its stream up to here. Waits, on the host, if
  /// it has run too far ahead (Fast-LLM's throttle).
  void launched(event_handle end);

  /// Of a step, by its number: the first call notes a point of the device's
  /// time and the host's, for `host_ns`, and waits for it.
  void begin_step(std::int64_t serial);
  /// When a point was reached, as host nanoseconds of `now_ns`.
  std::int64_t host_ns(const device_event& reached) const;

 private:
  std::shared_ptr<accelerator> on_;
  std::unique_ptr<device_stream> compute_, data_, sends_, receives_;
  std::size_t ahead_;
  std::deque<event_handle> running_;
  std::int64_t serial_ = 0;
  event_handle origin_;
  std::int64_t origin_ns_ = 0;
};

/// Tensors as another stream made them: work given to `stream` from now on
/// comes after `ready` (null: they were there already), and keeps them alive.
void take_over(device_stream& stream, const tensor_list& tensors,
               const event_handle& ready);

}  // namespace troupe
