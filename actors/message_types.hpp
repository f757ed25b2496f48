#pragma once

#include "troupe/actors/caf.hpp"

namespace troupe {

/// Makes troupe's messages known to CAF: once, before the first actor system of
/// the process. A trainer calls it too.
void register_message_types();

/// Where type ids of a user's own messages may begin.
inline constexpr caf::type_id_t first_free_type_id =
  caf::id_block::troupe::end + 64;

}  // namespace troupe
