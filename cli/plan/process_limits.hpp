#pragma once

#include <string>

namespace troupe::cli {

/// Throws `error` (device) if the limits of this process leave too little for
/// `troupe-runtime`: of address space (`ulimit -v`) to load LibTorch, which
/// would abort; of open files (`ulimit -n`).
void require_room_for_runtime();

/// An error's text; one about too many open files with their limit.
std::string with_limit(std::string text);

}  // namespace troupe::cli
