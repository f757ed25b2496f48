#include "troupe/engine/launch/rendezvous_messages.hpp"

#include "troupe/engine/transport/wire_fields.hpp"

namespace troupe {

// Found by the archives through the types' own namespace.

template <class Archive>
static void fields(Archive& with, join_request& v) {
  with(v.process, v.processes, v.pid, v.host, v.listens, v.description);
}

template <class Archive>
static void fields(Archive& with, join_welcome& v) {
  with(v.run, v.listens);
}

template <class Archive>
static void fields(Archive& with, join_refusal& v) {
  with(v.reason);
}

template <class Archive>
static void fields(Archive& with, line_hello& v) {
  with(v.run, v.process);
}

template <class Archive>
static void fields(Archive& with, clock_question& v) {
  with(v.asked);
}

template <class Archive>
static void fields(Archive& with, clock_answer& v) {
  with(v.asked, v.now);
}

template <class Archive>
static void fields(Archive& with, job_ready& v) {
  with(v.clock_offsets);
}

frame to_frame(const rendezvous_message& message) {
  wire_output out;
  out(message);
  return {frame_type::control, out.take(), {}};
}

rendezvous_message read_rendezvous(const frame& what) {
  if (what.type != frame_type::control || !what.tensors.empty())
    wire_reader::refuse("another kind than a process says when it joins");
  return from_wire<rendezvous_message>(what.head);
}

}  // namespace troupe
