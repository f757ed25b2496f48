#pragma once

namespace troupe::cli {

/// Whether terminals are shown colours: NO_COLOR is unset or empty.
bool shows_colours();

/// Whether drawings may have characters beyond ASCII: unless the locale in the
/// environment has another encoding than UTF-8, as C has.
bool shows_unicode();

}  // namespace troupe::cli
