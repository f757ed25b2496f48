#include "troupe/engine/launch/pending_connections.hpp"

#include <memory>
#include <utility>

namespace troupe {

void pending_connections::listen(
  const connection_pointer& peer,
  std::function<void(const rendezvous_message&)> then) {
  all_.insert(peer);
  connection_events each;
  each.limits = {.head_bytes = 1U << 20, .tensor_bytes = 0};
  auto heard = std::make_shared<bool>(false);
  each.arrived = [this, guard = guard_, peer, then = std::move(then),
                  heard](frame what) {
    if (guard.has_ended() || std::exchange(*heard, true))
      return;
    loop_.post(guard.over([this, peer, then, said = read_rendezvous(what)] {
      all_.erase(peer);
      then(said);
    }));
  };
  each.lost = [this, guard = guard_, peer](const std::string&) {
    if (!guard.has_ended())
      all_.erase(peer);
  };
  peer->start(std::move(each));
}

}  // namespace troupe
