#pragma once

#include <functional>
#include <memory>

#include "troupe/engine/device/device_graph.hpp"

namespace troupe::testing {

/// Records the work of faked accelerators' streams as operators of LibTorch,
/// below autograd and autocast, and checks the rules of CUDA:
/// - the host does not wait for recorded work, and no operator reads a value on
///   the host;
/// - a stream takes part once it waits for an event of a stream that does, and
///   the first stream has waited for all others at the end;
/// - no stream waits for an event from before the recording;
/// - no operator reads the host's memory;
/// - one thread at a time gives work.
/// A broken rule throws an `error` (device), perhaps from the operator. As a
/// recording GPU runs nothing, new tensors are spoiled at the end, and older
/// ones keep their values.
///
/// A launch runs the operators again, in their order, on the given stream.
/// Tensors from before the recording must still exist. The end of a graph frees
/// the memory of the tensors that it made.
std::unique_ptr<device_graph> record_faked_graph(
  device_stream& origin, const std::function<void()>& work);

/// Of the recording that goes on, if the stream takes part in it; 0 if not.
int recorded_with(int stream);
/// The stream takes part from now on; throws if it can't: `event` is of that
/// recording, or of none (0).
void take_part(int stream, int event);
/// Operators that the thread runs on streams may be recorded while it lives.
std::shared_ptr<void> enter_recording();

}  // namespace troupe::testing
