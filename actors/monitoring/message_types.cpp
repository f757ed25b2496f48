#include "troupe/actors/monitoring/message_types.hpp"

#include <mutex>

#include "troupe/actors/monitoring/actor_monitor.hpp"
#include "troupe/actors/monitoring/event_hub.hpp"
#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

static_assert(caf::id_block::troupe_monitors::end
                <= caf::id_block::troupe_public::begin,
              "messages of two blocks have the same type id");

/// False while the static objects of files that were linked before are made.
const bool is_loaded = [] {
  register_message_types();
  return true;
}();

}  // namespace

void require_loaded() {
  if (!is_loaded)
    fail(error_code::invalid_argument,
         "a trainer is made before main() begins, while static objects are: it "
         "would outlive what it runs on; make it in main(), or as a static "
         "object of a function");
}

void register_message_types() {
  static std::once_flag once;
  std::call_once(once, [] {
    caf::init_global_meta_objects<caf::id_block::troupe>();
    caf::init_global_meta_objects<caf::id_block::troupe_monitors>();
    caf::init_global_meta_objects<caf::id_block::troupe_public>();
    caf::core::init_global_meta_objects();
  });
}

}  // namespace troupe
