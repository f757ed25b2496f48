#pragma once

#include <cstdint>
#include <memory>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/overlap_options.hpp"

namespace troupe {

/// A rank's non-CPU device: an accelerator, which other ranks of the process
/// may share, and streams of the rank's own. The actors of the rank give them
/// work: one thread at a time, in the order in which the ops start.
///
/// A rank whose schedule has overlapped pairs has two compute streams, and an
/// object for each: the first, and what `beside` gives. A stage uses the one of
/// its own stream, on which its parameters, activations and gradients are made.
class rank_device {
 public:
  /// The host runs at most `ahead` compute ops ahead of the device.
  rank_device(std::shared_ptr<accelerator> on, const overlap_options& overlap,
              std::int32_t ahead = 64);

  /// The same rank with its second compute stream, which the first call makes.
  /// All but `compute` is one for both.
  std::shared_ptr<rank_device> beside() const;

  const std::shared_ptr<accelerator>& hardware() const;
  c10::Device device() const { return compute_->device(); }
  device_stream& compute() { return *compute_; }
  /// Streams for each kind of work; the compute stream if it doesn't overlap.
  device_stream& data();
  device_stream& sends();
  device_stream& receives();
  bool overlaps_transfers() const;
  /// Streams for activations to the host's memory, and back; the first call
  /// makes each.
  device_stream& offloads();
  device_stream& reloads();

  /// Work given to the rank's compute streams afterwards runs after all that
  /// they were given before. Does nothing where there is one.
  void join();
  /// Work given to the rank's compute streams afterwards starts once `event` is
  /// reached.
  void wait_for(const device_event& event);

  /// Marks the end of a compute op on its stream. Waits, on the host, if the
  /// host has run too far ahead (Fast-LLM's throttle).
  void launched(event_handle end);

  /// Begins the step of this number: the first call waits for a point of the
  /// device's time, behind all compute work, and pairs it with the host's, for
  /// `host_ns`.
  void begin_step(std::int64_t serial);
  /// When an event was reached, in host nanoseconds of `now_ns`.
  std::int64_t host_ns(const device_event& reached) const;

 private:
  struct shared;
  rank_device(std::shared_ptr<shared> rank, device_stream& compute);

  std::shared_ptr<shared> rank_;
  device_stream* compute_;  // one of the rank's
};

/// Takes over tensors made on another stream: work given to `stream` afterwards
/// runs after `ready` (null: they were ready already), and keeps them alive.
void take_over(device_stream& stream, const tensor_list& tensors,
               const event_handle& ready);

}  // namespace troupe
