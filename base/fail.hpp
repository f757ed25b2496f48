#pragma once

#include <utility>

#include <fmt/format.h>

#include "troupe/base/error.hpp"

namespace troupe {

/// Throws an `error` with a sentence formatted by fmt::format.
template <class... Args>
[[noreturn]] void fail(error_code code, fmt::format_string<Args...> sentence,
                       Args&&... args) {
  throw error{code, fmt::format(sentence, std::forward<Args>(args)...)};
}

}  // namespace troupe
