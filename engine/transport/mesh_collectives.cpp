// Members of mesh that use no more than its other members.
#include <random>
#include <utility>

#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

std::uint64_t new_run_id() {
  std::random_device device;
  const auto id = (std::uint64_t{device()} << 32) | device();
  return id == 0 ? 1 : id;
}

line line_of(frame_type type) {
  switch (type) {
    case frame_type::tensors:
    case frame_type::part:
    case frame_type::tokens:
    case frame_type::state:
    case frame_type::copy:
      return line::outgoing;
    case frame_type::credit:
      return line::incoming;
    default:
      return line::control;
  }
}

void mesh::broadcast(const frame& message, std::uint64_t run) {
  if (!place().leads())
    return send(0, message, run);
  for (std::int32_t p = 1; p < place().processes; ++p)
    send(p, message, run);
}

std::vector<frame> mesh::gather(frame mail) {
  if (!place().leads()) {
    send(0, std::move(mail));
    return {};
  }
  std::vector<frame> all;
  all.push_back(std::move(mail));
  for (std::int32_t p = 1; p < place().processes; ++p)
    all.push_back(receive(p));
  return all;
}

frame mesh::share(frame mail) {
  if (!place().leads())
    return receive(0);
  broadcast(mail);
  return mail;
}

void mesh::barrier() {
  gather({frame_type::mail, {}, {}});
  share({frame_type::mail, {}, {}});
}

}  // namespace troupe
