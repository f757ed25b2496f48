#pragma once

#include <memory>
#include <string>
#include <vector>

#include "race_watch.hpp"
#include "troupe/engine/device/accelerator.hpp"

namespace troupe::testing {

/// An accelerator whose device is the CPU: its streams run their work at once,
/// and every event is reached. During its lifetime, every operator of LibTorch
/// on any thread is checked, by vector clocks, against the order that streams
/// and events guarantee. It is a race to read what another stream wrote, or to
/// write what another stream wrote or reads, without an event in between; and
/// so is using a tensor on a stream without `device_stream::uses`. Work outside
/// of streams is the host's: it must have waited for an event, and may only
/// copy what a stream made. Likewise, a stream may only copy what the host
/// made, as on a real device neither can access the other's memory. A delay
/// takes no time, but the events after it have a later time. Several
/// accelerators in a process are checked together. Communicators move tensors
/// between them, and compute averages in ascending rank, so that the bits are
/// the CPU's. Graphs are those of faked_graph.hpp.
class faked_accelerator final : public accelerator {
 public:
  faked_accelerator();
  ~faked_accelerator() override;
  faked_accelerator(const faked_accelerator&) = delete;
  faked_accelerator& operator=(const faked_accelerator&) = delete;

  /// The errors found, in words; each kind of error once per kind of operator.
  std::vector<std::string> races() const;
  /// The number of operators within streams that were checked.
  std::size_t watched() const;
  /// The number of recorded graphs, and that of all launches.
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
