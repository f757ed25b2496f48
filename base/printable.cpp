#include "troupe/base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
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

namespace {

/// Bytes of the text's first character; 0 if it must not be shown.
std::size_t shown_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto first = byte(0);
  if (first < 0x80)
    return (first >= ' ' && first != 0x7f) || first == '\n' || first == '\t';
  const std::size_t size = first >= 0xf0 && first <= 0xf4  ? 4
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xc2 && first < 0xe0 ? 2
                                                           : 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0U) != 0x80)
      return 0;
  const bool is_control = first == 0xc2 && byte(1) < 0xa0;
  const bool reverses =
    first == 0xe2
    && ((byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae)
        || (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9));
  return is_control || reverses ? 0 : size;
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const auto size = shown_bytes(text);
    if (size > 0)
      shown += text.substr(0, size);
    else
      shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return shown;
}

}  // namespace troupe
