#pragma once

#include "troupe/base/input_file.hpp"

namespace troupe {

/// Throws `io` unless the open file is this process's user's or root's, and
/// nobody else may write it: then another user may have chosen what it holds.
void require_trustworthy(const input_file& file);
/// Throws `io` unless, besides, nobody else may read it: it holds a secret.
void require_private(const input_file& file);

}  // namespace troupe
