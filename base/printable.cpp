#include "troupe/base/printable.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

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

double printable(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace troupe
