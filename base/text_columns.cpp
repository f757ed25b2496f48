#include "troupe/base/text_columns.hpp"

#include <algorithm>

namespace troupe {

namespace {

bool begins_character(char byte) {
  return (byte & 0xC0) != 0x80;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
    std::ranges::count_if(text, begins_character));
}

std::string clipped(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t column = 0; end < text.size(); ++end)
    if (begins_character(text[end]) && ++column > columns)
      break;
  return std::string{text.substr(0, end)};
}

}  // namespace troupe
