#pragma once

namespace troupe::cli {

/// Sets up the whole process, before anything else runs. Closed descriptors 0
/// to 2 become the null device, so that no file opened later is taken for
/// standard output. A pipe without a reader and a file beyond the limit
/// (`ulimit -f`) make the write fail, like a full disk, and don't end the
/// process.
void prepare_process();

}  // namespace troupe::cli
