#include "troupe/base/printable.hpp"

#include <fmt/format.h>

namespace troupe {

std::string printable(std::string_view text, std::size_t most) {
  std::string shown;
  for (const auto c : text.substr(0, most))
    if (c >= ' ' && c <= '~')
      shown += c;
    else
      shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  return text.size() > most ? shown + "..." : shown;
}

}  // namespace troupe
