#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <utility>

namespace troupe {

/// Calls `call`; appends "(context)" to a LibTorch error that it throws.
template <class Call>
auto with_context(const std::string& context, Call&& call) {
  try {
    return std::forward<Call>(call)();
  } catch (c10::Error& reason) {
    reason.add_context(context);
    throw;
  }
}

}  // namespace troupe
