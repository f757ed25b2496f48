#pragma once

#include <memory>
#include <string>
#include <vector>

#include "race_watch.hpp"
#include "troupe/engine/device/accelerator.hpp"

namespace troupe::testing {

/// An accelerator whose device is the CPU: its streams run what they are given
/// at once, and events are reached. But while it lives every operator of
/// LibTorch, on any thread, is held against the order that streams and events
/// promise, by vector clocks: reading or writing what another stream wrote (or
/// reads) without an event in between is a race, and so is the use of a tensor
/// on a stream that was not told of it (`device_stream::uses`). Work outside
/// of streams is the host's, which has to have waited for an event, and may
/// only copy what a stream made; a stream may only copy what the host made, as
/// a device has neither at hand. A delay takes no time: but events behind it
/// tell of a later one. Several in a process are watched together.
/// Communicators move tensors between them; an average is computed in ascending
/// rank, so that its bits are those of the CPU. Graphs are those of
/// faked_graph.hpp.
class faked_accelerator final : public accelerator {
 public:
  faked_accelerator();
  ~faked_accelerator() override;
  faked_accelerator(const faked_accelerator&) = delete;
  faked_accelerator& operator=(const faked_accelerator&) = delete;

  /// What went wrong, in words; each kind of operator and trouble once.
  std::vector<std::string> races() const;
  /// Operators that were watched within streams.
  std::size_t watched() const;
  /// Graphs that were to be recorded, and how often any was launched.
  int recordings() const { return recordings_; }
  int launches() const { return launches_; }

  const accelerator_description& description() const override;
  std::unique_ptr<device_stream> make_stream(stream_priority) override;
  device_kernels& kernels() override;
  std::unique_ptr<device_graph> record_graph(
    device_stream& origin, const std::function<void()>& work) override;
  communicator_id make_communicator_id() override;
  std::unique_ptr<communicator> make_communicator(
    const communicator_options&) override;

 private:
  watched_operators watched_;
  accelerator_description description_;
  std::unique_ptr<device_kernels> kernels_;
  int recordings_ = 0, launches_ = 0;
};

}  // namespace troupe::testing
