#pragma once

#include <string>

namespace troupe {

/// Reads a job's, an endpoint's or a page's token: a file's content without
/// surrounding white space. Never waits, and reads some KiB at most. Throws
/// `invalid_argument`, naming the file but never its content, if it can't be
/// opened, is no regular file, is another user's (but root's), can be read or
/// written by others than its owner, has fewer than 16 characters or too many,
/// or has white space in between.
std::string read_secret(const std::string& path);

/// Compares in time that depends on the lengths only.
bool same_secret(const std::string& a, const std::string& b);

}  // namespace troupe
