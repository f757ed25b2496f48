#include "troupe/engine/launch/agent_store.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

/// Agents serve one job after the other, and restart a failed job under another
/// name.
std::string key_of(const launch_environment& place) {
  return "troupe/meeting/" + place.job;
}

template <class Use>
auto with_store(const launch_environment& place,
                std::chrono::milliseconds patience, const Use& use) {
  try {
    c10d::TCPStoreOptions options;
    options.port = place.port;
    options.waitWorkers = false;
    options.timeout = patience;
    const auto store = c10::make_intrusive<c10d::TCPStore>(place.host, options);
    return use(*store);
  } catch (const std::exception& reason) {
    const std::string text = reason.what();
    fail(error_code::transport,
         "the store of torchrun's agent at {}:{} can't be used for the "
         "rendezvous: {}; give --rendezvous HOST:PORT instead",
         place.host, place.port, text.substr(0, text.find('\n')));
  }
}

}  // namespace

void tell_agent_store(const launch_environment& place, const std::string& where,
                      std::chrono::milliseconds patience) {
  with_store(place, patience,
             [&](c10d::Store& store) { store.set(key_of(place), where); });
}

std::string ask_agent_store(const launch_environment& place,
                            std::chrono::milliseconds patience) {
  return with_store(place, patience, [&](c10d::Store& store) {
    return store.get_to_str(key_of(place));
  });
}

}  // namespace troupe
