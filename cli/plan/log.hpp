#pragma once

namespace troupe::cli {

/// Sends logs to standard error, without characters that control a terminal:
/// they may quote what another process sent.
void open_log();

}  // namespace troupe::cli
