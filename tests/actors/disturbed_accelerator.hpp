#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/engine/device/accelerator.hpp"

namespace troupe::testing {

/// A disturbance of a device, at every `every`-th entering of one of its
/// streams, ahead of the work that follows.
struct device_disturbance {
  int every = 3;
  double delay = 0;  // seconds, of that stream
  int blocks = 0;    // blocks of memory: allocated, filled with nan and freed
  /// Whether to skip the waits of one stream for another's events. Streams are
  /// numbered in the order in which they were made, from 0.
  std::function<bool(int of, int by)> leaves_out = {};
};

/// A call by which the host waited for a device: that the event or the stream
/// was done already makes no difference. Streams are numbered as they were
/// made, from 0; times are those of `now_ns`.
struct host_wait {
  int stream = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Disturbs another accelerator: work takes longer, memory that is released too
/// early is overwritten soon, and all waits of the host are noted. Results stay
/// the same if events and `device_stream::uses` are correct. For the same
/// threads as the other accelerator. Makes no communicators, and records no
/// graphs.
class disturbed_accelerator final : public accelerator {
 public:
  disturbed_accelerator(std::shared_ptr<accelerator> on,
                        device_disturbance how);

  /// How often it has disturbed a stream.
  std::int64_t disturbed() const;
  /// All waits since the last call.
  std::vector<host_wait> take_waits();

  const accelerator_description& description() const override;
  std::unique_ptr<device_stream> make_stream(stream_priority) override;
  device_kernels& kernels() override;
  std::unique_ptr<device_graph> record_graph(
    device_stream&, const std::function<void()>&) override;
  communicator_id make_communicator_id() override;
  std::unique_ptr<communicator> make_communicator(
    const communicator_options&) override;

  /// The record that streams and events write to; they may outlive the
  /// accelerator.
  struct notes;

 private:
  std::shared_ptr<accelerator> on_;
  device_disturbance how_;
  std::shared_ptr<notes> notes_;
};

}  // namespace troupe::testing
