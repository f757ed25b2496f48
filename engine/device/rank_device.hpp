#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "troupe/engine/device/accelerator.hpp"

namespace troupe {

/// Which work runs beside the compute ops of a rank. Other work delays them;
/// results are the same.
struct overlap_options {
  bool data = true;       // batches on their way to a device
  bool reduce = true;     // gradients of replicas
  bool transfers = true;  // tensors between devices

  friend bool operator==(const overlap_options&,
                         const overlap_options&) = default;
};

/// A rank's non-CPU device: an accelerator, which other ranks of the process
/// may share, and streams of the rank's own. The actors of the rank give them
/// work: one thread at a time, in the order in which the ops start.
class rank_device {
 public:
  /// The host runs at most `ahead` compute ops ahead of the device.
  rank_device(std::shared_ptr<accelerator> on, const overlap_options& overlap,
              std::int32_t ahead = 64);

  const std::shared_ptr<accelerator>& on() const { return on_; }
  c10::Device device() const { return compute_->device(); }
  device_stream& compute() { return *compute_; }
  /// Streams for each kind of work; the compute stream if it doesn't overlap.
  device_stream& data() { return data_ ? *data_ : *compute_; }
  device_stream& sends() { return sends_ ? *sends_ : *compute_; }
  device_stream& receives() { return receives_ ? *receives_ : *compute_; }
  bool overlaps_transfers() const { return sends_ != nullptr; }

  /// Marks the end of a compute op on its stream. Waits, on the host, if the
  /// host has run too far ahead (Fast-LLM's throttle).
  void launched(event_handle end);

  /// Begins the step of this number: the first call waits for a point of the
  /// device's time and pairs it with the host's, for `host_ns`.
  void begin_step(std::int64_t serial);
  /// When an event was reached, in host nanoseconds of `now_ns`.
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

/// Takes over tensors made on another stream: work given to `stream` afterwards
/// runs after `ready` (null: they were ready already), and keeps them alive.
void take_over(device_stream& stream, const tensor_list& tensors,
               const event_handle& ready);

}  // namespace troupe
