#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "troupe/engine/events/log.hpp"
#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// A warning that begins with the monitor's name, to where it wants those.
template <class... Args>
void warn_of(const monitor& about, fmt::format_string<Args...> sentence,
             Args&&... args) {
  const auto text =
    fmt::format("monitor {}{}", about.name,
                fmt::format(sentence, std::forward<Args>(args)...));
  if (about.warn)
    about.warn(text);
  else
    log()->warn("{}", text);
}

}  // namespace troupe
