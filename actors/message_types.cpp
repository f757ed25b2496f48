#include "troupe/actors/message_types.hpp"

#include <mutex>

#include "troupe/actors/monitoring/event_hub.hpp"

namespace troupe {

namespace {

[[maybe_unused]] const bool at_load = [] {
  register_message_types();
  return true;
}();

}  // namespace

void register_message_types() {
  static std::once_flag once;
  std::call_once(once, [] {
    caf::init_global_meta_objects<caf::id_block::troupe>();
    caf::init_global_meta_objects<caf::id_block::troupe_monitors>();
    caf::core::init_global_meta_objects();
  });
}

}  // namespace troupe
