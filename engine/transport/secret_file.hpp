#pragma once

#include <string>

namespace troupe {

/// A job's, an endpoint's or a page's token: what stands in a file, without the
/// white space around it. Never waits, and reads some KiB at most. Throws
/// `invalid_argument`, naming the file and never what is in it, for one that
/// can't be opened, is no regular file, that others than its owner may read or
/// write, or that holds fewer than 16 characters, too many, or white space
/// between them.
std::string read_secret(const std::string& path);

}  // namespace troupe
