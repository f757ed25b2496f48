#pragma once

#include <string>
#include <string_view>

namespace troupe {

/// How long a pipe may have no reader, or one that takes nothing.
inline constexpr double pipe_patience_seconds = 10;

/// Opens a pipe or device that is there, for writing; waits that long for a
/// pipe's reader. -1, with `errno`, where it can't.
int open_in_place(const char* path, double patience = pipe_patience_seconds);

/// Writes all of it, also to a descriptor that does not block, whose reader
/// may pause that long. False, with `errno`, where it can't.
bool write_all(int descriptor, std::string_view bytes,
               double patience = pipe_patience_seconds);

/// The system's reason, and what it means for a pipe.
std::string write_problem(int reason);

}  // namespace troupe
