#pragma once

namespace troupe {

/// Has the allocator give the system the memory that was freed, which it would
/// keep for later. Takes milliseconds: for after much was freed.
void return_freed_memory();

}  // namespace troupe
