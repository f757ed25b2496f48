#pragma once

namespace troupe {

/// Makes troupe's messages known to CAF. This happens when the program is
/// loaded, before `main`, so that CAF's table of types need not grow while an
/// actor system runs: programs register their own messages, with ids from
/// caf::first_custom_type_id up to 1999, before or after a trainer is made.
/// Further calls have no effect.
void register_message_types();

/// Throws `invalid_argument` before troupe's own static objects are made, as
/// for a trainer of static storage: CAF's would be destroyed before it.
void require_loaded();

}  // namespace troupe
