#pragma once

namespace troupe::cli {

/// What is settled for the whole process, before anything else runs. Closed
/// descriptors 0 to 2 become the null device: what is opened later must not be
/// taken for standard output. A pipe without a reader and a file beyond the
/// limit (`ulimit -f`) are errors of the write that meets them, like a full
/// disk, and not the end of the process.
void prepare_process();

}  // namespace troupe::cli
