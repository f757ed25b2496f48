#pragma once

#include <string>

namespace troupe::cli {

/// Replaces this process by the program that has LibTorch, `troupe-runtime`, in
/// the same folder, with the same arguments. Returns only by throwing `error`
/// (io): it is missing or can't be started; (device): limits of this process
/// leave too little for it.
[[noreturn]] void become_runtime(char** argv);

}  // namespace troupe::cli
