#pragma once

#include <functional>
#include <memory>

#include "troupe/engine/device/device_graph.hpp"

namespace troupe::testing {

/// Records what streams of faked accelerators are given, as operators of
/// LibTorch, below autograd and autocast, and holds whoever gives it to the
/// rules of CUDA: the host does not wait for what is recorded, nor does an
/// operator need a value there; a stream takes part from where it waits for an
/// event of one that does, and at the end the first one has waited for all;
/// events from before are not waited for; memory of the host is not read; one
/// thread at a time gives work. Breaking one throws, as an `error` (device) or
/// from the operator. As nothing runs on a GPU that records, what was made is
/// spoiled at the end, and what was there before is as it was.
///
/// A launch runs the operators again, in their order, on the stream that it is
/// given. What was there before the recording has to be there still. Who lets
/// go of a graph has let go of what it made: its memory is free then.
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
