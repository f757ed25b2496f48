#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/engine/device/accelerator.hpp"

namespace troupe::testing {

/// What a device is disturbed with, each `every`-th time that a stream of it
/// is entered, ahead of what it is given then.
struct disturbance {
  int every = 3;
  double delay = 0;  // seconds, of that stream
  int blocks = 0;    // of memory: taken, filled with nan and given back
  /// Whether to leave out the waits of one stream for another's events. Streams
  /// are numbered as they were made, from 0.
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

/// Another accelerator, on which work takes longer than it should, where
/// memory that was let go of too early is overwritten soon, and which knows
/// where the host waited. Results stay the same if events and
/// `device_stream::uses` are as they should be. As many threads as for the
/// other one. Makes no communicators, and records no graphs.
class disturbed_accelerator final : public accelerator {
 public:
  disturbed_accelerator(std::shared_ptr<accelerator> on, disturbance how);

  /// Times that it has disturbed a stream.
  std::int64_t disturbed() const;
  /// All since the last call.
  std::vector<host_wait> take_waits();

  const accelerator_description& description() const override;
  std::unique_ptr<device_stream> make_stream(stream_priority) override;
  device_kernels& kernels() override;
  std::unique_ptr<device_graph> record_graph(
    device_stream&, const std::function<void()>&) override;
  communicator_id make_communicator_id() override;
  std::unique_ptr<communicator> make_communicator(
    const communicator_options&) override;

  /// What streams and events write down; they may outlive the accelerator.
  struct notes;

 private:
  std::shared_ptr<accelerator> on_;
  disturbance how_;
  std::shared_ptr<notes> notes_;
};

}  // namespace troupe::testing
