#pragma once

#include <functional>
#include <memory>

#include "troupe/engine/device/device_graph.hpp"

namespace troupe::testing {

/// Records the work of faked accelerators' streams as operators of LibTorch,
/// below autograd and autocast, and checks the rules of CUDA:
/// - the host does not wait for recorded work, and no operator reads a value on
///   the host;
/// - a stream takes part once it waits for an event of a stream that takes
/// part,
///   and at the end the first stream has waited for all others;
/// - no stream waits for an event from before the recording;
/// - no operator reads the host's memory;
/// - one thread at a time launches work.
/// A violation throws an `error` (device), perhaps from the operator. As a GPU
/// runs nothing while it records, new tensors are overwritten at the end, and
/// older ones keep their values.
///
/// A launch runs the operators again, in their order, on the given stream.
/// Tensors from before the recording must still exist. The graph's destructor
/// frees the tensors that it made.
std::unique_ptr<device_graph> record_faked_graph(
  device_stream& origin, const std::function<void()>& work);

/// The number of the current recording if the stream takes part in it, else 0.
int recorded_with(int stream);
/// Adds the stream to the recording; throws if that is not allowed. `event`:
/// the recording that the event belongs to; 0: none.
void take_part(int stream, int event);
/// While the result exists, operators that the calling thread runs on streams
/// may be recorded.
std::shared_ptr<void> enter_recording();

}  // namespace troupe::testing
