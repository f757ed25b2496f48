#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace troupe {

/// How long a pipe may have no reader: one that is started at the same time.
inline constexpr double open_patience_seconds = 2;
/// How long a pipe's reader may read nothing.
inline constexpr double pipe_patience_seconds = 10;

/// Opens an existing pipe or device for writing; waits up to `patience` seconds
/// for a pipe's reader. Returns -1, with `errno`, on failure.
int open_in_place(const char* path, double patience = open_patience_seconds);

/// Writes all bytes, also to a nonblocking descriptor, whose reader may pause
/// for `patience` seconds. Returns false, with `errno`, on failure.
bool write_all(int descriptor, std::string_view bytes,
               double patience = pipe_patience_seconds);

/// Prints a text at once, in one piece among those of other threads. Its reader
/// may pause for as long as it likes, or, since `end_patience`, for
/// `open_patience_seconds`. Returns false, with `errno`, on failure.
bool print_all(std::FILE* out, std::string_view text);

/// The process is about to end: readers that take nothing are given up
/// `open_patience_seconds` after the first call. Any thread.
void end_patience();

/// Whether it is the end of a pipe whose other end is closed.
bool has_no_reader(int descriptor);

/// The system's reason, explained if it concerns a pipe.
std::string write_problem(int reason);

}  // namespace troupe
