#include "troupe/engine/launch/membership_messages.hpp"

#include "troupe/engine/transport/wire.hpp"

namespace troupe {

frame to_frame(const membership_message& message) {
  return {frame_type::control, to_wire(message), {}};
}

membership_message read_membership(const frame& what) {
  if (what.type != frame_type::control || !what.tensors.empty())
    wire_reader::refuse(
      "a kind of message that is not between a job's process and its "
      "authority");
  return from_wire<membership_message>(what.head);
}

}  // namespace troupe
