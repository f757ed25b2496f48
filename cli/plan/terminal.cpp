#include "troupe/cli/plan/terminal.hpp"

#include <cstdlib>
#include <string_view>

namespace troupe::cli {

bool shows_colours() {
  const auto* refused = std::getenv("NO_COLOR");
  return refused == nullptr || *refused == '\0';
}

bool shows_unicode() {
  for (const auto* variable : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const auto* set = std::getenv(variable); set && *set != '\0') {
      const std::string_view locale(set);
      return locale.find("UTF") != locale.npos
             || locale.find("utf") != locale.npos;
    }
  return true;
}

}  // namespace troupe::cli
