#pragma once

namespace troupe::cli {

/// Logs go to standard error, with nothing in them that would make a terminal
/// do things: they may quote what another process sent.
void open_log();

}  // namespace troupe::cli
